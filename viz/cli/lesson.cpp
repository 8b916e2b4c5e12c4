// flashscope lesson: lessons without a window. List them, check them, grade answers, write one as a page.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "sim/error.h"
#include "viz/cli/command.h"
#include "viz/cli/format.h"
#include "viz/cli/lesson_engine.h"
#include "viz/cli/lesson_html.h"
#include "viz/cli/options.h"
#include "viz/cli/table.h"
#include "viz/core/lesson_check.h"
#include "viz/core/lesson_report.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/lesson_library.h"
#include "viz/io/toml.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

struct Options {
  std::vector<std::string> words;  // what to do, and the lessons' names
  std::string folder, answers, out;
  LessonGround ground;
  bool json = false;
};

LessonLibrary library_of(const Options& options) {
  return options.folder.empty() ? LessonLibrary::shipped() : LessonLibrary::of_folder(options.folder);
}

/// Without toml++ there would be "no lesson"; this says why.
void require_toml() {
  if (!can_read_toml()) parse_toml("", "lesson");
}

/// One line without control characters: a file's name or a text of it must not write over the terminal.
std::string line_of(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return text;
}

void list(const Options& options, Context& context) {
  const LessonList lessons = read_lessons(library_of(options));
  for (const std::string& fault : lessons.faults) context.note("flashscope: " + line_of(fault) + "\n");
  if (options.json) {
    Json array = Json::array();
    for (const Lesson& lesson : lessons.lessons)
      array.push_back({{"name", lesson.name},
                       {"id", lesson.id},
                       {"number", lesson.number},
                       {"title", lesson.title},
                       {"summary", lesson.summary},
                       {"steps", lesson.steps.size()},
                       {"asks", lesson.asks.size()}});
    return context.print(json_text(array));
  }
  using enum Table::Align;
  Table table({right, left, left});
  for (const Lesson& lesson : lessons.lessons)
    table.row({std::to_string(lesson.number), line_of(lesson.name), lesson.title});
  context.print(table.text());
}

std::vector<std::string> chosen_files(const Options& options, const LessonLibrary& library) {
  const std::vector<std::string>& all = library.files();
  if (options.words.size() == 1) return all;
  std::vector<std::string> files;
  for (std::size_t n = 1; n < options.words.size(); ++n) {
    // A file that cannot be parsed, or even read, is still one to check.
    std::string file = options.words[n];
    const auto is_there = [&](const std::string& name) { return std::find(all.begin(), all.end(), name) != all.end(); };
    if (is_there(file + ".md"))
      file += ".md";
    else if (!is_there(file))
      file = library.lesson(file).file;
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  }
  return files;
}

std::string place_of(const std::string& fault) {
  const std::size_t file = fault.find(".md:");
  return file == std::string::npos ? fault : fault.substr(0, fault.find(':', file + 4));
}

/// On another machine or recording a sentence may not hold, a tile not fit, a mistake be no mistake: the lesson says so
/// where it stands, and that is no fault of it. What is wrong where the lesson was written for is.
void set_aside_what_holds_at_home(viz::LessonCheck& check, const viz::LessonCheck& home) {
  std::set<std::string> places;
  for (const std::string& fault : home.faults) places.insert(place_of(fault));
  const auto of_lesson = std::stable_partition(check.faults.begin(), check.faults.end(),
                                               [&](const std::string& fault) { return places.count(place_of(fault)); });
  check.differences.assign(of_lesson, check.faults.end());
  check.faults.erase(of_lesson, check.faults.end());
}

/// `file_of_id`: of the lessons checked before, whose ids this one must not have.
viz::LessonCheck checked(const std::string& file, const LessonLibrary& library, const viz::LessonEngine& engine,
                         std::map<std::string, std::string>& file_of_id) {
  try {
    Lesson lesson = parse_lesson(library.text(file), file);
    const auto [same, is_new] = file_of_id.emplace(lesson.id, file);
    const std::string id = lesson.id;
    viz::LessonCheck check = check_lesson(open_lesson(std::move(lesson), library, engine), library);
    if (!is_new) check.faults.push_back(file + ":2: the id '" + id + "' is that of " + same->second);
    return check;
  } catch (const Error& error) {
    viz::LessonCheck check;
    check.name = file.substr(0, file.size() - 3);
    check.faults.emplace_back(error.what());
    return check;
  }
}

void check(const Options& options, Context& context) {
  const LessonLibrary library = library_of(options);
  const std::vector<std::string> files = chosen_files(options, library);
  if (files.empty()) throw Error(ErrorKind::input, "lesson check: there is no lesson (*.md) in " + options.folder);
  const viz::LessonEngine engine = make_lesson_engine(options.ground), home = make_lesson_engine();
  using enum Table::Align;
  Table table({left, right, right, right, right, right, right, right, right, right});
  table.row({"lesson", "steps", "runs", "values", "claims", "shows", "asks", "words", "min", "ease"});
  Json array = Json::array();
  std::string faults, differences;
  std::size_t count = 0, lessons = 0;
  std::map<std::string, std::string> file_of_id, file_of_id_at_home;
  for (const std::string& file : files) {
    viz::LessonCheck c = checked(file, library, engine, file_of_id);
    if (options.ground.is_given() && !c.faults.empty())
      set_aside_what_holds_at_home(c, checked(file, library, home, file_of_id_at_home));
    table.row({line_of(c.name), std::to_string(c.steps), std::to_string(c.runs), std::to_string(c.values),
               std::to_string(c.claims), std::to_string(c.shows), std::to_string(c.asks), std::to_string(c.words),
               formatted("{:.0f}", c.minutes), formatted("{:.0f}", c.reading_ease)});
    array.push_back({{"name", c.name},
                     {"title", c.title},
                     {"steps", c.steps},
                     {"runs", c.runs},
                     {"values", c.values},
                     {"claims", c.claims},
                     {"shows", c.shows},
                     {"asks", c.asks},
                     {"words", c.words},
                     {"minutes", c.minutes},
                     {"reading_ease", c.reading_ease},
                     {"faults", c.faults},
                     {"differences", c.differences}});
    for (const std::string& fault : c.faults) faults += line_of(fault) + "\n";
    for (const std::string& difference : c.differences) differences += "  " + line_of(difference) + "\n";
    count += c.faults.size();
    lessons += !c.faults.empty();
  }
  context.print(options.json ? json_text(array)
                             : table.text() +
                                   "  min: to read, look and answer. ease: Flesch reading ease, 60 is plain "
                                   "English.\n");
  if (!differences.empty())
    context.note("Other than where the lessons were written for, which is no fault of theirs:\n" + differences);
  if (!faults.empty()) {
    context.note(faults);
    throw Error(ErrorKind::input, formatted("lesson check: {} {} in {} of {} lessons", count,
                                            count == 1 ? "fault" : "faults", lessons, files.size()));
  }
}

const std::string& only_name(const Options& options) {
  if (options.words.size() != 2)
    throw Error(ErrorKind::usage,
                "lesson " + options.words[0] + ": give the name of one lesson; 'flashscope lesson list' has them");
  return options.words[1];
}

/// A lesson that holds for the machine it was written for must be without fault. On another one a claim may fail, and
/// nothing may be recorded: that is told, as the window does, and the rest stands.
viz::OpenLesson opened(const std::string& name, const Options& options, const LessonLibrary& library,
                       Context& context) {
  viz::OpenLesson open = open_lesson(library.lesson(name), library, make_lesson_engine(options.ground));
  if (!options.ground.is_given() && !open.faults.empty()) throw Error(ErrorKind::input, open.faults.front());
  for (const std::string& fault : open.faults) context.note("flashscope: " + line_of(fault) + "\n");
  return open;
}

/// What is read must not be written over: a lesson's source, the answers.
void refuse_input_as_output(const Options& options, const LessonLibrary& library) {
  if (options.out.empty()) return;
  std::vector<std::string> inputs = {options.answers, options.ground.gpu, options.ground.recording};
  if (!options.folder.empty())
    for (const std::string& file : library.files()) inputs.push_back(options.folder + "/" + file);
  for (const std::string& input : inputs) {
    std::error_code failed;  // one of them does not exist, so they are not the same
    if (!input.empty() && std::filesystem::is_regular_file(options.out, failed) &&
        std::filesystem::equivalent(input, options.out, failed))
      throw Error(ErrorKind::usage, "--out: " + options.out + " is read here (" + input + "); name another file");
  }
}

void run_answers(const Options& options, Context& context) {
  const std::string& name = only_name(options);
  if (options.answers.empty())
    throw Error(ErrorKind::usage, "--answers: missing; it takes a JSON file {\"answers\": {\"QUESTION\": ANSWER, …}}");
  const LessonLibrary library = library_of(options);
  refuse_input_as_output(options, library);
  const Json document = parse_json(read_text_file(options.answers), options.answers);
  const Json& answers = required_member(document, "answers", options.answers);
  const viz::OpenLesson open = opened(name, options, library, context);
  Json report = graded_report(open, answers, options.answers);
  stamp(report);
  const std::string text = json_text(report);
  if (options.out.empty()) return context.print(text);
  write_file_atomically(options.out, text);
}

void export_page(const Options& options, Context& context) {
  const std::string& name = only_name(options);
  const LessonLibrary library = library_of(options);
  refuse_input_as_output(options, library);
  const viz::OpenLesson open = opened(name, options, library, context);
  std::vector<std::string> notices;
  const std::string page = lesson_html(open, library, notices);
  for (const std::string& notice : notices) context.note("flashscope: " + line_of(notice) + "\n");
  if (options.out.empty()) return context.print(page);
  write_file_atomically(options.out, page);
}

}  // namespace

Action declare_lesson(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_positionals(app, "ACTION", 100,
                  "list, check [NAME…], run NAME or export NAME; NAME as 'list' prints it, or the lesson's number",
                  options->words);
  add_text(app, "--lessons", "DIR", "a folder of your own lessons (*.md) instead of those shipped", options->folder);
  add_text(app, "--answers", "FILE", "run: answers by question, as JSON (docs/file-formats.md)", options->answers);
  add_text(app, "--out", "FILE", "run, export: write here instead of to standard output", options->out);
  add_value(app, "--gpu", "NAME|FILE", "check, run, export: numbers of this GPU, where a run names none (nvidia-h200)",
            [options](const std::string& text) {
              if (text.empty()) throw Error(ErrorKind::usage, "--gpu: the value is empty; it takes a name or a file");
              options->ground.gpu = text;
            });
  add_text(app, "--recording", "FILE",
           "check, run, export: take measured values from this recording, not the shipped ones",
           options->ground.recording);
  add_flag(app, "--json", "list, check: as JSON", options->json);
  return [options](Context& context) {
    require_toml();
    const std::string action = options->words.empty() ? "" : options->words[0];
    if (action == "list" && options->words.size() > 1)
      throw Error(ErrorKind::usage, "lesson list: '" + options->words[1] + "': one argument too many");
    if (!options->answers.empty() && action != "run") throw Error(ErrorKind::usage, "--answers: only with lesson run");
    if (!options->out.empty() && action != "run" && action != "export")
      throw Error(ErrorKind::usage, "--out: only with lesson run and lesson export");
    if (options->json && (action == "run" || action == "export"))
      throw Error(ErrorKind::usage, "--json: only with lesson list and lesson check");
    if (options->ground.is_given() && action == "list")
      throw Error(ErrorKind::usage, "--gpu, --recording: only with lesson check, run and export");
    if (action == "list") return list(*options, context);
    if (action == "check") return check(*options, context);
    if (action == "run") return run_answers(*options, context);
    if (action == "export") return export_page(*options, context);
    throw Error(ErrorKind::usage, "lesson: '" + action + "' is not one of list, check, run, export");
  };
}

}  // namespace flashscope
