#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "tests/lessons/support.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_folder.h"
#include "viz/io/files.h"
#include "viz/io/lesson_progress.h"

namespace flashscope {
namespace {

using viz::testing::contains;

Progress finished(const std::string& id, int furthest = 4) {
  Progress progress;
  progress[id] = {furthest, furthest, true, {{"q", {2, true, false, 7}}}};
  return progress;
}

Progress loaded(const std::string& path, std::string* told = nullptr) {
  std::string notice;
  const Progress progress = load_progress(path, notice);
  if (told) *told = notice;
  return progress;
}

TEST_CASE("progress is what it was, and a score is 0.7") {
  const TemporaryFolder folder;
  const std::string path = folder.path("sub/progress.json");
  CHECK(loaded(path).empty());
  CHECK(save_progress(path, finished("a")) == "");
  CHECK(loaded(path) == finished("a"));
  CHECK(contains(read_text_file(path), "\"score\": 0.7\n"));
}

TEST_CASE("L03: a file cut at half is kept aside, told, and the one before it used") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  REQUIRE(save_progress(path, finished("a")) == "");
  REQUIRE(save_progress(path, finished("b")) == "");  // keeps the one with "a" as *.previous
  const std::string whole = read_text_file(path);
  write_file_atomically(path, whole.substr(0, whole.size() / 2));
  std::string notice;
  const Progress progress = loaded(path, &notice);
  CHECK(contains(notice, path + ".bak"));
  CHECK(progress == finished("a"));
  CHECK(read_text_file(path + ".bak") == whole.substr(0, whole.size() / 2));
  CHECK(save_progress(path, progress) == "");
  CHECK(loaded(path) == finished("a"));
  // Cut again, and saved over without having been loaded.
  write_file_atomically(path, "{\"lessons\": {");
  CHECK(save_progress(path, finished("c")) == "");
  CHECK(loaded(path).count("c") == 1);
}

TEST_CASE("L03: a cut file opened and closed without an answer costs nothing at the next start") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  REQUIRE(save_progress(path, finished("a")) == "");
  REQUIRE(save_progress(path, finished("b")) == "");
  write_file_atomically(path, "{\"lessons\": {");
  for (int start = 0; start < 3; ++start) {  // none of which saves
    std::string notice;
    CHECK(loaded(path, &notice) == finished("a"));
    CHECK(contains(notice, path + ".bak"));
    CHECK(contains(notice, "saved before"));
  }
  CHECK(save_progress(path, finished("c")) == "");  // by a window that never loaded it
  const Progress all = loaded(path);
  CHECK(all.count("a") == 1);
  CHECK(all.count("c") == 1);
}

TEST_CASE("L03: a second file that makes no sense does not replace what was kept of the first") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  for (const char* garbage : {"first", "second", "third"}) {
    write_file_atomically(path, garbage);
    std::string notice;
    loaded(path, &notice);
    CHECK(contains(notice, ".bak"));
  }
  CHECK(read_text_file(path + ".bak") == "first");
  CHECK(read_text_file(path + ".bak2") == "second");
  CHECK(read_text_file(path + ".bak3") == "third");
}

TEST_CASE("L03: what a later version keeps in the file is there after a save, also by way of *.previous") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  write_file_atomically(path, R"({"later": [1], "lessons": {"a": {"step": 1, "furthest": 1, "done": false, "noted": "n",
    "answers": {"q": {"tries": 1, "right": false, "revealed": false, "score": 0, "seconds": 7}}}}})");
  const auto check = [&] {
    const Json document = parse_json(read_text_file(path), path);
    CHECK(document.value("later", Json()) == Json::array({1}));
    const Json& lesson = document["lessons"]["a"];
    CHECK(lesson.value("noted", "") == "n");
    CHECK(lesson["answers"]["q"].value("seconds", 0) == 7);
    CHECK(lesson["answers"]["q"]["right"] == true);
  };
  REQUIRE(save_progress(path, finished("a")) == "");
  check();
  REQUIRE(save_progress(path, finished("b")) == "");
  write_file_atomically(path, "cut");
  REQUIRE(save_progress(path, finished("c")) == "");
  check();
}

TEST_CASE("L03: what cannot be read for the moment is not written over") {
  if (geteuid() == 0) {
    // Root reads everything; a folder in the file's place cannot be read either.
    const TemporaryFolder folder;
    const std::string path = folder.path("progress.json");
    std::filesystem::create_directory(path);
    std::string notice;
    CHECK(loaded(path, &notice).empty());
    CHECK(!notice.empty());
    CHECK(!save_progress(path, finished("a")).empty());
    CHECK(std::filesystem::is_directory(path));
    return;
  }
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  REQUIRE(save_progress(path, finished("a")) == "");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  std::string notice;
  CHECK(loaded(path, &notice).empty());
  CHECK(!notice.empty());
  CHECK(!save_progress(path, finished("b")).empty());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  CHECK(loaded(path) == finished("a"));
}

TEST_CASE("L03: a pipe or a device in the place of progress is told, and nobody waits for it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::string notice;
  CHECK(loaded(path, &notice).empty());
  CHECK(contains(notice, path + ": a pipe or a device"));
  CHECK(contains(save_progress(path, finished("a")), path + ": a pipe or a device"));
  CHECK(std::filesystem::is_fifo(path));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  CHECK(contains(save_progress(path, finished("a")), path + ": a pipe or a device"));
  std::filesystem::remove(path);
  // In the place of the one before: what there is stays as it is.
  REQUIRE(mkfifo((path + ".previous").c_str(), 0600) == 0);
  CHECK(save_progress(path, finished("a")) == "");
  CHECK(contains(save_progress(path, finished("b")), ".previous: a pipe or a device"));
  CHECK(loaded(path) == finished("a"));
}

TEST_CASE("L03: two windows, one lesson each: both are done; unknown lessons stay; going back lowers nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  REQUIRE(save_progress(path, finished("gone-from-this-version")) == "");
  const Progress first = loaded(path), second = loaded(path);
  REQUIRE(save_progress(path, merged(first, finished("three"))) == "");
  REQUIRE(save_progress(path, merged(second, finished("five"))) == "");
  Progress all = loaded(path);
  for (const char* id : {"gone-from-this-version", "three", "five"}) CHECK(all[id].done);
  Progress back;
  back["three"] = {1, 1, false, {{"q", {1, false, false, 0}}}};
  REQUIRE(save_progress(path, back) == "");
  all = loaded(path);
  CHECK(all["three"].done);
  CHECK(all["three"].furthest == 4);
  CHECK(all["three"].step == 1);
  CHECK(all["three"].answers["q"].score_tenths == 7);
}

TEST_CASE("L03: another process that holds the lock is not waited for long, and nothing is lost") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  REQUIRE(save_progress(path, finished("a")) == "");
  const int holder = open((path + ".lock").c_str(), O_RDWR);
  REQUIRE(holder >= 0);
  REQUIRE(flock(holder, LOCK_EX) == 0);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(contains(save_progress(path, finished("b")), "not saved now"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  CHECK(loaded(path) == finished("a"));
  close(holder);
  CHECK(save_progress(path, finished("b")) == "");
  CHECK(loaded(path).size() == 2);
}

TEST_CASE("L03: killed while saving, the file is the old one or the new one") {
  const TemporaryFolder folder;
  const std::string path = folder.path("progress.json");
  Progress large;
  for (int n = 0; n < 300; ++n) large["lesson " + std::to_string(n)] = finished("x")["x"];
  REQUIRE(save_progress(path, large) == "");
  for (int n = 0; n < rounds(100); ++n) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int step = 1;; ++step) {
        large["lesson 0"].furthest = 10 + step;
        save_progress(path, large);
      }
    }
    usleep(static_cast<useconds_t>(500 + 97 * n));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::string notice;
    const Progress progress = loaded(path, &notice);
    CHECK(notice == "");
    CHECK(progress.size() == 300);
  }
}

TEST_CASE("a folder that cannot be written is a notice, and so is no home") {
  CHECK(!save_progress("", finished("a")).empty());
  CHECK(contains(save_progress("/proc/nowhere/progress.json", finished("a")), "not kept"));
}

}  // namespace
}  // namespace flashscope
