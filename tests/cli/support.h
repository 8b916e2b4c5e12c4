// Two ways to run the program: in this process, where a test can put a GPU of its own, and as the binary.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sim/error.h"
#include "tests/support/paths.h"
#include "viz/cli/command.h"

namespace flashscope {

struct RunResult {
  int code = 0;
  std::string out, err;
};

using OpenDevice = std::function<std::unique_ptr<kernels::Device>()>;

inline std::unique_ptr<kernels::Device> no_device() { throw Error(ErrorKind::env, "no GPU in this test"); }

inline RunResult run_here(const std::vector<std::string>& arguments, const OpenDevice& open_device = no_device) {
  RunResult result;
  Context context;
  context.print = [&](std::string_view text) { result.out += text; };
  context.note = [&](std::string_view text) { result.err += text; };
  context.open_device = open_device;
  result.code = run(arguments, context);
  return result;
}

/// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "flashscope-cli-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    m_path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::permissions(m_path, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(m_path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (m_path / name).string(); }
  bool empty() const { return std::filesystem::is_empty(m_path); }

 private:
  std::filesystem::path m_path;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// The binary, by a shell: `tail` holds arguments and redirections, `before` what stands in front ("env -u DISPLAY").
inline RunResult run_binary(const std::string& tail, const std::string& before = "") {
  const Folder folder;
  const std::string command = "( " + before + " timeout 120 '" + flashscope_binary() + "' " + tail + " ) >'" +
                              (folder / "out") + "' 2>'" + (folder / "err") + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_file(folder / "out"), read_file(folder / "err")};
}

/// An error is one line that begins with the program's name, and nothing else was printed.
inline bool is_one_line_error(const RunResult& result) {
  return result.out.empty() && result.err.rfind("flashscope: ", 0) == 0 &&
         result.err.find('\n') == result.err.size() - 1;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace flashscope
