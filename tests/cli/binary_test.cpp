// The binary itself: what it links, what it does without a display.
#include <doctest/doctest.h>

#include "tests/cli/support.h"
#include "tests/support/paths.h"

namespace flashscope {
namespace {

// A sanitizer brings a library of its own: there is nothing to learn from such a build.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
std::string output_of(const std::string& command) {
  const Folder folder;
  REQUIRE(std::system((command + " >'" + (folder / "out") + "'").c_str()) == 0);
  return read_file(folder / "out");
}

TEST_CASE("the dynamic section names the C and C++ runtime and nothing else") {
  std::istringstream lines(output_of("LC_ALL=C readelf -d '" + flashscope_binary() + "'"));
  int needed = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!contains(line, "(NEEDED)")) continue;
    ++needed;
    const std::size_t open = line.find('['), close = line.find(']');
    REQUIRE(open != std::string::npos);
    const std::string library = line.substr(open + 1, close - open - 1);
    CAPTURE(library);
    const std::string name = library.substr(0, library.find(".so"));
    bool allowed = false;
    for (const char* plain : {"libc", "libm", "libstdc++", "libgcc_s"}) allowed = allowed || name == plain;
    CHECK((allowed || name.rfind("ld-linux", 0) == 0));
  }
  CHECK(needed > 0);
}
#endif

TEST_CASE("G02: without a display the window is refused in words, and everything else works") {
  const std::string no_display = "env -u DISPLAY -u WAYLAND_DISPLAY";
  const RunResult window = run_binary("", no_display);
  CHECK(window.code == 4);
  CHECK(is_one_line_error(window));
  CHECK(contains(window.err, "DISPLAY"));
  CHECK(contains(window.err, "flashscope compare"));
  for (const char* arguments : {"--help", "--version", "simulate --seqlen 64", "compare --seqlen 64", "doctor"}) {
    CAPTURE(arguments);
    CHECK(run_binary(arguments, no_display).code == 0);
  }
}

TEST_CASE("--version names the version and the commit") {
  const RunResult result = run_binary("--version");
  CHECK(result.code == 0);
  CHECK(result.out.rfind("flashscope ", 0) == 0);
  CHECK(contains(result.out, "commit"));
}

TEST_CASE("the program runs from any folder and leaves nothing there") {
  const Folder folder;
  CHECK(run_binary("simulate --seqlen 64", "cd '" + (folder / ".") + "' &&").code == 0);
  CHECK(folder.empty());
}

TEST_CASE("doctor gives a next step for what does not work") {
  const RunResult result = run_binary("doctor", "env -u DISPLAY -u WAYLAND_DISPLAY");
  CHECK(result.code == 0);
  CHECK(contains(result.out, "display"));
  CHECK(contains(result.out, "next step"));
}

}  // namespace
}  // namespace flashscope
