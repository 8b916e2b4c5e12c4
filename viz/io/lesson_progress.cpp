#include "viz/io/lesson_progress.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "sim/error.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

namespace fs = std::filesystem;

constexpr int kMost = 1'000'000;  // of steps and tries: a larger number in the file is garbage

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

AnswerProgress answer_from_json(const Json& object, const std::string& place) {
  AnswerProgress answer;
  answer.tries = static_cast<int>(integer_member(object, "tries", 0, kMost, place));
  answer.right = bool_member(object, "right", place);
  answer.revealed = bool_member(object, "revealed", place);
  const double score = number_member(object, "score", place);
  if (!(score >= 0 && score <= 1)) throw Error(ErrorKind::input, place + ".score: outside 0 … 1");
  answer.score_tenths = static_cast<int>(score * 10 + 0.5);
  return answer;
}

Progress from_document(const Json& document, const std::string& file) {
  const Json& lessons = required_member(document, "lessons", file);
  if (!lessons.is_object()) throw Error(ErrorKind::input, file + ": lessons: expected an object");
  Progress progress;
  for (const auto& [id, object] : lessons.items()) {
    const std::string place = file + ": lessons." + id;
    LessonProgress& lesson = progress[id];
    lesson.step = static_cast<int>(integer_member(object, "step", 0, kMost, place));
    lesson.furthest = static_cast<int>(integer_member(object, "furthest", 0, kMost, place));
    lesson.done = bool_member(object, "done", place);
    const Json& answers = required_member(object, "answers", place);
    if (!answers.is_object()) throw Error(ErrorKind::input, place + ".answers: expected an object");
    for (const auto& [ask, answer] : answers.items()) lesson.answers[ask] = answer_from_json(answer, place + "." + ask);
  }
  return progress;
}

/// `document` with what is known now in it: keys of a later version stay where they are.
std::string to_text(const Progress& progress, Json document) {
  Json& lessons = document["lessons"];
  for (const auto& [id, lesson] : progress) {
    Json& object = lessons[id];
    object["step"] = lesson.step;
    object["furthest"] = lesson.furthest;
    object["done"] = lesson.done;
    Json& answers = object["answers"];
    if (answers.is_null()) answers = Json::object();
    for (const auto& [ask, answer] : lesson.answers) {
      Json& into = answers[ask];
      into["tries"] = answer.tries;
      into["right"] = answer.right;
      into["revealed"] = answer.revealed;
      into["score"] = answer.score_tenths / 10.0;  // 0.7, not 0.7000000000000001
    }
  }
  if (lessons.is_null()) lessons = Json::object();
  stamp(document);
  return json_text(document);
}

/// Held while a file is read, merged and written, so that two windows do not take turns in between. Who holds it for
/// longer than 200 ms is stopped or hangs, and a window must not hang with it.
class Lock {
 public:
  explicit Lock(const std::string& path) : m_descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::milliseconds(200);
    while (m_descriptor >= 0 && flock(m_descriptor, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks
      m_is_taken = Clock::now() >= until;
      if (m_is_taken) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Lock() {
    if (m_descriptor >= 0) close(m_descriptor);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool is_taken() const { return m_is_taken; }  // by another process, still

 private:
  int m_descriptor;
  bool m_is_taken = false;
};

/// What a file holds: the progress in it, and all that stands there.
struct Stored {
  Progress progress;
  Json document = Json::object();
};

/// A pipe would be waited for without end, a device read without end.
bool is_endless(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

enum class Reading { absent, good, garbage, unreadable };

Reading read(const std::string& path, Stored& stored, std::string& why) {
  std::error_code failed;
  if (!fs::exists(path, failed) && !failed) return Reading::absent;
  if (is_endless(path)) {
    why = path + ": a pipe or a device, no file";
    return Reading::unreadable;
  }
  std::string bytes;
  try {
    bytes = read_binary_file(path, kMostTextBytes);
  } catch (const Error& error) {
    why = error.what();
    return Reading::unreadable;
  }
  try {
    Stored found;
    found.document = parse_json(text_from_bytes(std::move(bytes), path), path);
    found.progress = from_document(found.document, path);
    stored = std::move(found);
    return Reading::good;
  } catch (const Error& error) {
    why = error.what();
    return Reading::garbage;
  }
}

/// The first of *.bak, *.bak2, *.bak3 … that is free: an older one may be all that is left of older progress.
std::string free_backup(const std::string& path) {
  std::string name = path + ".bak";
  std::error_code failed;
  for (int n = 2; fs::exists(fs::symlink_status(name, failed)); ++n) name = path + ".bak" + std::to_string(n);
  return name;
}

/// The last good state: that of the file, or else of the one saved before it. Absent also when a garbled file was moved
/// aside and nothing stands in for it; garbage when it could not be moved. What had to be done is told in `notice`.
Reading read_last_good(const std::string& path, Stored& stored, std::string& notice) {
  std::string why;
  Reading reading = read(path, stored, why);
  if (reading == Reading::good) return reading;
  notice = why;
  if (reading == Reading::unreadable) return reading;
  std::error_code failed;
  if (reading == Reading::garbage) {
    const std::string backup = free_backup(path);
    fs::rename(path, backup, failed);
    notice += failed ? "; the file was left as it is" : "; it was kept as " + backup;
    if (!failed) reading = Reading::absent;
  }
  const bool has_previous = read(path + ".previous", stored, why) == Reading::good;
  if (!has_previous) return reading;
  if (notice.empty()) {  // moved aside at an earlier start, and nothing saved since
    notice = path + " is missing";
    if (fs::exists(path + ".bak", failed)) notice += " (" + path + ".bak is what once made no sense there)";
  }
  notice += ", and the progress saved before it is used";
  return reading;
}

}  // namespace

Progress merged(const Progress& older, const Progress& newer) {
  Progress all = older;
  for (const auto& [id, lesson] : newer) {
    LessonProgress& into = all[id];
    into.step = lesson.step;
    into.furthest = std::max(into.furthest, lesson.furthest);
    into.done = into.done || lesson.done;
    for (const auto& [ask, answer] : lesson.answers) {
      AnswerProgress& best = into.answers[ask];
      best.tries = std::max(best.tries, answer.tries);
      best.right = best.right || answer.right;
      best.revealed = best.revealed || answer.revealed;
      best.score_tenths = std::max(best.score_tenths, answer.score_tenths);
    }
  }
  return all;
}

std::string progress_path() {
  if (const std::string folder = variable("XDG_DATA_HOME"); !folder.empty())
    return folder + "/flashscope/progress.json";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.local/share/flashscope/progress.json";
  return "";
}

Progress load_progress(const std::string& path, std::string& notice) {
  if (path.empty()) return {};
  Stored stored;
  std::string told;
  const Reading reading = read_last_good(path, stored, told);
  if (reading == Reading::unreadable) told = "Progress is not known and will not be kept now: " + told;
  if (!told.empty()) notice = told;
  return stored.progress;
}

std::string save_progress(const std::string& path, const Progress& progress) {
  if (path.empty()) return "Progress is not kept: neither XDG_DATA_HOME nor HOME is set";
  try {
    std::error_code failed;  // the write below says what is wrong
    fs::create_directories(fs::path(path).parent_path(), failed);
    const Lock lock(path + ".lock");
    if (lock.is_taken()) return "Progress is not saved now: another process holds " + path + ".lock";
    Stored there;
    std::string told;
    const Reading reading = read_last_good(path, there, told);
    if (reading == Reading::unreadable || reading == Reading::garbage) return "Progress is not kept: " + told;
    const Progress all = merged(there.progress, progress);
    if (reading == Reading::good) {
      if (all == there.progress) return "";
      const std::string previous = path + ".previous";
      if (is_endless(previous)) return "Progress is not kept: " + previous + ": a pipe or a device, no file";
      write_file_atomically(previous, json_text(there.document));
    }
    write_file_atomically(path, to_text(all, std::move(there.document)));
  } catch (const Error& error) {
    return std::string("Progress is not kept: ") + error.what();
  }
  return "";
}

}  // namespace flashscope
