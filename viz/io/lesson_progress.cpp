#include "viz/io/lesson_progress.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

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

Progress from_text(const std::string& text, const std::string& file) {
  const Json document = parse_json(text, file);
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

std::string to_text(const Progress& progress) {
  Json lessons = Json::object();
  for (const auto& [id, lesson] : progress) {
    Json answers = Json::object();
    for (const auto& [ask, answer] : lesson.answers)
      answers[ask] = {{"tries", answer.tries},
                      {"right", answer.right},
                      {"revealed", answer.revealed},
                      {"score", answer.score_tenths / 10.0}};  // 0.7, not 0.7000000000000001
    lessons[id] = {
        {"step", lesson.step}, {"furthest", lesson.furthest}, {"done", lesson.done}, {"answers", std::move(answers)}};
  }
  Json document = {{"lessons", std::move(lessons)}};
  stamp(document);
  return json_text(document);
}

/// Held while a file is read, merged and written, so that two windows do not take turns in between.
class Lock {
 public:
  explicit Lock(const std::string& path) : m_descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (m_descriptor >= 0) flock(m_descriptor, LOCK_EX);
  }
  ~Lock() {
    if (m_descriptor >= 0) close(m_descriptor);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int m_descriptor;
};

enum class Reading { absent, good, garbage, unreadable };

Reading read(const std::string& path, Progress& progress, std::string& why) {
  std::error_code failed;
  if (!fs::exists(path, failed) && !failed) return Reading::absent;
  std::string bytes;
  try {
    bytes = read_binary_file(path);
  } catch (const Error& error) {
    why = error.what();
    return Reading::unreadable;
  }
  try {
    progress = from_text(text_from_bytes(std::move(bytes), path), path);
    return Reading::good;
  } catch (const Error& error) {
    why = error.what();
    return Reading::garbage;
  }
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
  Progress progress;
  std::string why;
  switch (read(path, progress, why)) {
    case Reading::absent:
    case Reading::good: return progress;
    case Reading::unreadable: notice = "Progress is not known and will not be kept now: " + why; return {};
    case Reading::garbage: break;
  }
  std::error_code failed;
  fs::rename(path, path + ".bak", failed);
  notice = why + (failed ? "; the file was left as it is" : "; it was kept as " + path + ".bak");
  Progress previous;
  if (read(path + ".previous", previous, why) != Reading::good) return {};
  notice += ", and the progress saved before it is used";
  return previous;
}

std::string save_progress(const std::string& path, const Progress& progress) {
  if (path.empty()) return "Progress is not kept: neither XDG_DATA_HOME nor HOME is set";
  try {
    std::error_code failed;  // the write below says what is wrong
    fs::create_directories(fs::path(path).parent_path(), failed);
    const Lock lock(path + ".lock");
    Progress there;
    std::string why;
    switch (read(path, there, why)) {
      case Reading::unreadable: return "Progress is not kept: " + why;
      case Reading::garbage: {
        std::string told;
        there = load_progress(path, told);
        break;
      }
      case Reading::good:
        if (merged(there, progress) == there) return "";
        write_file_atomically(path + ".previous", to_text(there));
        break;
      case Reading::absent: break;
    }
    write_file_atomically(path, to_text(merged(there, progress)));
  } catch (const Error& error) {
    return std::string("Progress is not kept: ") + error.what();
  }
  return "";
}

}  // namespace flashscope
