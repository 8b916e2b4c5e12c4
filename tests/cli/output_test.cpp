// Case F07: what could not be written is an error with path and reason, and costs nothing that was there.
#include <doctest/doctest.h>

#include <unistd.h>

#include "tests/cli/support.h"
#include "tests/support/paths.h"

namespace flashscope {
namespace {

const std::string kExample = test_data("online_softmax_example.json");

void check_refused(const std::vector<std::string>& arguments, const std::string& path) {
  const RunResult result = run_here(arguments);
  CAPTURE(path);
  CHECK(result.code == 7);
  CHECK(is_one_line_error(result));
  CHECK(contains(result.err, path));
}

std::vector<std::string> trace_to(const std::string& path) {
  return {"simulate", "--heads", "1", "--seqlen", "128", "--trace", path};
}

TEST_CASE("F07: a trace to a missing folder, a folder, a full disk, a read-only folder") {
  const Folder folder;
  check_refused(trace_to(folder / "no/trace.json"), folder / "no/trace.json");
  check_refused(trace_to(folder / "."), folder / ".");
  check_refused(trace_to("/dev/full"), "/dev/full");
  if (geteuid() != 0) {  // root writes anywhere
    std::filesystem::permissions(folder / ".", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    check_refused(trace_to(folder / "trace.json"), folder / "trace.json");
  }
}

TEST_CASE("F07: attend --out to a missing folder and to a file") {
  const Folder folder;
  check_refused({"attend", kExample, "--out", folder / "no"}, folder / "no");
  write_file(folder / "file", "kept");
  check_refused({"attend", kExample, "--out", folder / "file"}, folder / "file");
  CHECK(read_file(folder / "file") == "kept");
}

TEST_CASE("F07: attend --out writes the rest where one output fails") {
  const Folder folder;
  std::filesystem::create_directory(folder / "o.npy");
  const RunResult result = run_here({"attend", kExample, "--out", folder / "."});
  CHECK(result.code == 7);
  CHECK(contains(result.err, "o.npy"));
  CHECK(std::filesystem::exists(folder / "lse.npy"));
  CHECK(contains(read_file(folder / "attend.json"), "\"commit\""));
}

TEST_CASE("F07: standard output full or closed is exit 7") {
  for (const char* command : {"simulate --seqlen 64", "simulate --seqlen 64 --json", "compare --seqlen 64", "doctor",
                              "--help", "--version"}) {
    CAPTURE(command);
    for (const char* where : {" >/dev/full", " >&-"}) {
      const RunResult result = run_binary(std::string(command) + where);
      CHECK(result.code == 7);
      CHECK(is_one_line_error(result));
    }
  }
  // A reader that has gone: the pipe breaks, and the program says so instead of dying of a signal.
  const Folder folder;
  const RunResult piped =
      run_binary("simulate --seqlen 64; echo $? >'" + (folder / "code") + "'; } | true", "{ sleep 0.3;");
  CHECK(read_file(folder / "code") == "7\n");
  CHECK(is_one_line_error(piped));
}

TEST_CASE("F07: a file opened while standard output is closed does not receive it") {
  const Folder folder;
  const RunResult result = run_binary("simulate --heads 1 --seqlen 128 --trace '" + (folder / "trace.json") + "' >&-");
  CHECK(result.code == 7);
  const std::string trace = read_file(folder / "trace.json");
  CHECK(trace.rfind("{", 0) == 0);
  CHECK_FALSE(contains(trace, "predicted"));
}

}  // namespace
}  // namespace flashscope
