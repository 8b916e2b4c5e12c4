// Reading and writing whole files. What could not be written is an error, and never costs the file that was there.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace flashscope {

/// The most bytes that are read of one file. A device such as /dev/zero never ends, and a sparse file of a few sectors on
/// disk may hold more than there is memory.
constexpr std::int64_t kMostBinaryBytes = std::int64_t{8} << 30;
constexpr std::int64_t kMostTextBytes = std::int64_t{256} << 20;

/// The bytes of a file. Throws Error(input) with path and reason, also where there are more than `most` of them.
std::string read_binary_file(const std::string& path, std::int64_t most = kMostBinaryBytes);

/// A text file as UTF-8 with "\n" line ends: a byte order mark is dropped, CRLF becomes LF. Throws Error(input) with path
/// and reason; UTF-16 and UTF-32 are refused by name, and so are more than kMostTextBytes.
std::string read_text_file(const std::string& path);
/// The same for bytes that are already in memory. `file` is the name for messages.
std::string text_from_bytes(std::string bytes, const std::string& file);

/// A file that appears whole or not at all: bytes go to a temporary file beside `path`, commit() syncs it and renames it
/// over `path`; without commit() the temporary file goes and `path` stays as it was. What is not a regular file (a pipe,
/// a device) is written directly. Every failure throws Error(io) with path and reason.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what);
  void discard();

  std::string m_path;       // as the user named it, for messages
  std::string m_target;     // what will be replaced: `m_path` with symbolic links followed
  std::string m_temporary;  // empty: writing directly
  int m_descriptor = -1;
};

/// One write and commit of OutputFile.
void write_file_atomically(const std::string& path, std::string_view bytes);

/// Writes to standard output and checks that it arrived. Throws Error(io) (closed pipe, full disk).
void write_stdout(std::string_view bytes);

}  // namespace flashscope
