// Text encodings (case F06) and what happens when a file cannot be written (case F07).
#include "viz/io/files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/support/throws_error.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

TEST_CASE("byte order mark and CRLF change nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.path("config.json");
  const std::string clean = "{\"first\": \"a\",\n \"second\": 2}\n";
  std::string crlf;
  for (char c : clean) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const std::string no_end = clean.substr(0, clean.size() - 1);
  for (const std::string& text : {clean, crlf, "\xEF\xBB\xBF" + clean, "\xEF\xBB\xBF" + crlf, no_end}) {
    put_bytes(path, text);
    const std::string read = read_text_file(path);
    CHECK((read == clean || read == no_end));
    const Json document = parse_json(read, path);
    CHECK(document.begin().key() == "first");
    CHECK(document["first"] == "a");
    CHECK(document["second"] == 2);
  }
}

TEST_CASE("a carriage return of its own stays") {
  CHECK(text_from_bytes("a\rb\r\nc\r", "x") == "a\rb\nc\r");
  CHECK(text_from_bytes("", "x").empty());
}

TEST_CASE("UTF-16 and UTF-32 are refused by name") {
  using namespace std::string_literals;
  const auto refused = [](const std::string& bytes) {
    return thrown_by([&] { text_from_bytes(bytes, "lesson.md"); });
  };
  CHECK(refused("\xFF\xFE{\0}\0"s).says("lesson.md: the encoding is UTF-16 (little-endian)"));
  CHECK(refused("\xFE\xFF\0{\0}"s).says("UTF-16 (big-endian)"));
  CHECK(refused("\xFF\xFE\0\0{\0\0\0"s).says("UTF-32"));
  CHECK(refused("{\0}\0"s).says("UTF-16 without a byte order mark"));
  CHECK(refused("\xFF\xFE"s).kind == ErrorKind::input);
}

TEST_CASE("a file that cannot be read names path and reason") {
  const TemporaryFolder folder;
  const Thrown missing = thrown_by([&] { read_text_file(folder.path("none.json")); });
  CHECK(missing.kind == ErrorKind::input);
  CHECK(missing.says(folder.path("none.json")));
  CHECK(missing.says("No such file"));
  CHECK(thrown_by([&] { read_binary_file(folder.folder().string()); }).says("Is a directory"));
}

/// Names in the folder: nothing but the files wanted may stay.
std::size_t entries(const TemporaryFolder& folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.folder())) {
    (void)entry;
    ++count;
  }
  return count;
}

TEST_CASE("a written file holds the bytes, keeps permissions and leaves nothing beside it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out.json");
  write_file_atomically(path, "one");
  CHECK(bytes_of(path) == "one");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  write_file_atomically(path, "two");
  CHECK(bytes_of(path) == "two");
  struct stat status = {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(entries(folder) == 1);
}

TEST_CASE("a symbolic link stays one") {
  const TemporaryFolder folder;
  put_bytes(folder.path("real"), "old");
  std::filesystem::create_symlink("real", folder.path("link"));
  write_file_atomically(folder.path("link"), "new");
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(bytes_of(folder.path("real")) == "new");
}

TEST_CASE("without commit the old file stands and the new one goes") {
  const TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  put_bytes(path, "good");
  {
    OutputFile file(path);
    file.write("half of a tra");
  }
  CHECK(bytes_of(path) == "good");
  CHECK(entries(folder) == 1);
}

TEST_CASE("missing folder, directory, full device, pipe without reader: io, with path and reason") {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& path) { return thrown_by([&] { write_file_atomically(path, "bytes"); }); };
  const Thrown missing = refused(folder.path("no/such/out.json"));
  CHECK(missing.kind == ErrorKind::io);
  CHECK(missing.says(folder.path("no/such/out.json")));
  CHECK(missing.says("No such file"));
  const Thrown directory = refused(folder.folder().string());
  CHECK(directory.kind == ErrorKind::io);
  CHECK(directory.says("Is a directory"));
  const Thrown full = refused("/dev/full");
  CHECK(full.kind == ErrorKind::io);
  CHECK(full.says("/dev/full"));
  CHECK(full.says("No space left"));
  CHECK_FALSE(refused("/dev/null").kind.has_value());
  CHECK(entries(folder) == 0);
}

TEST_CASE("a read-only folder and a read-only file: io, nothing changed") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out.json");
  put_bytes(path, "good");
  // The superuser may write anywhere: become nobody for a moment.
  const bool superuser = ::geteuid() == 0;
  REQUIRE(::chmod(folder.folder().c_str(), 0555) == 0);
  if (superuser) REQUIRE(::seteuid(65534) == 0);
  const Thrown in_folder = thrown_by([&] { write_file_atomically(path, "new"); });
  const Thrown beside = thrown_by([&] { write_file_atomically(folder.path("other.json"), "new"); });
  if (superuser) REQUIRE(::seteuid(0) == 0);
  REQUIRE(::chmod(folder.folder().c_str(), 0755) == 0);
  CHECK(in_folder.kind == ErrorKind::io);
  CHECK(in_folder.says("Permission denied"));
  CHECK(beside.kind == ErrorKind::io);
  CHECK(bytes_of(path) == "good");
  CHECK(entries(folder) == 1);
}

TEST_CASE("a disk that fills up leaves the good file as it was") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out.npy");
  put_bytes(path, "good");
  // A limit on file size stands for the full disk: write() stores a part and then fails in the same way.
  rlimit old = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = old;
  small.rlim_cur = 1000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Thrown thrown = thrown_by([&] { write_file_atomically(path, std::string(5000, 'x')); });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK(thrown.kind == ErrorKind::io);
  CHECK(thrown.says("File too large"));
  CHECK(bytes_of(path) == "good");
  CHECK(entries(folder) == 1);
}

/// Runs `body` with standard output going to `descriptor`.
template <class Body>
Thrown with_stdout(int descriptor, Body body) {
  std::fflush(stdout);
  const int saved = ::dup(STDOUT_FILENO);
  ::dup2(descriptor, STDOUT_FILENO);
  const Thrown thrown = thrown_by(body);
  ::dup2(saved, STDOUT_FILENO);
  ::close(saved);
  return thrown;
}

TEST_CASE("standard output: a closed pipe and a full disk are errors, not signals") {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  ::close(pipe_ends[0]);
  const Thrown closed = with_stdout(pipe_ends[1], [] { write_stdout("text\n"); });
  ::close(pipe_ends[1]);
  CHECK(closed.kind == ErrorKind::io);
  CHECK(closed.says("Broken pipe"));

  const int full = ::open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  const Thrown no_space = with_stdout(full, [] { write_stdout("text\n"); });
  ::close(full);
  CHECK(no_space.kind == ErrorKind::io);
  CHECK(no_space.says("No space left"));
}

TEST_CASE("standard output receives everything") {
  const TemporaryFolder folder;
  const int file = ::open(folder.path("out").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(file >= 0);
  const Thrown thrown = with_stdout(file, [] { write_stdout("text\n"); });
  ::close(file);
  CHECK_FALSE(thrown.kind.has_value());
  CHECK(bytes_of(folder.path("out")) == "text\n");
}

}  // namespace
}  // namespace flashscope
