// The lessons themselves: nothing stale, nothing missing, and a checker that would see it if there were.
#include <doctest/doctest.h>

#include <set>

#include "tests/lessons/support.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/lesson_check.h"
#include "viz/core/lesson_terms.h"
#include "viz/io/attend_io.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

using testing::contains;

TEST_CASE("every shipped lesson holds what it says") {
  const LessonLibrary library = LessonLibrary::shipped();
  const LessonEngine engine = make_lesson_engine();
  const LessonList list = read_lessons(library);
  CHECK(list.faults.empty());
  CHECK(list.lessons.size() == 15);
  std::set<std::string> ids;
  std::set<int> numbers;
  for (const Lesson& lesson : list.lessons) {
    CAPTURE(lesson.file);
    CHECK(ids.insert(lesson.id).second);
    CHECK(numbers.insert(lesson.number).second);
    const LessonCheck check = check_lesson(open_lesson(lesson, library, engine), library);
    for (const std::string& fault : check.faults) FAIL_CHECK(fault);
    CHECK(check.minutes >= 5);
    CHECK(check.minutes <= 15);
    CHECK(check.reading_ease > 60);
    CHECK(check.claims > 0);
  }
}

/// Numbers of three digits or with a decimal point that stand in a text as they are: not computed.
std::vector<std::string> typed_numbers(const LessonText& text) {
  std::vector<std::string> numbers;
  for (const LessonSpan& span : text) {
    if (span.kind == LessonSpan::Kind::value || span.kind == LessonSpan::Kind::code) continue;
    for (std::size_t at = span.text.find_first_of("0123456789"); at != std::string::npos;) {
      std::size_t end = span.text.find_first_not_of("0123456789.,", at);
      if (end == std::string::npos) end = span.text.size();
      std::string number = span.text.substr(at, end - at);
      while (number.back() == '.' || number.back() == ',') number.pop_back();
      if (number.size() > 2) numbers.push_back(number);
      at = span.text.find_first_of("0123456789", end);
    }
  }
  return numbers;
}

TEST_CASE("no number is typed that could be computed: what stands in the prose is a year, a paper or a premise") {
  const std::set<std::string> allowed = {"1981", "2024", "2407.08608", "2603.05451",  // papers
                                         "200",                                       // B200
                                         "100",  "0.1",  "0.25",       "0.001",
                                         "128"};  // what somebody in a question says, and digits of a dtype
  for (const Lesson& lesson : read_lessons(LessonLibrary::shipped()).lessons) {
    for_each_text(lesson, [&](const LessonText& text) {
      for (const std::string& number : typed_numbers(text)) {
        CAPTURE(lesson.file);
        CAPTURE(text.front().line);
        CAPTURE(number);
        CHECK(allowed.count(number) == 1);
      }
    });
  }
}

/// An engine that predicts for another machine, and one whose recording measured something else.
OpenLesson opened_with(const Lesson& lesson, const LessonEngine& engine) {
  return open_lesson(lesson, LessonLibrary::shipped(), engine);
}

TEST_CASE("another machine or another recording changes the text and the answers") {
  const Lesson lesson = LessonLibrary::shipped().lesson("1");
  const LessonEngine engine = make_lesson_engine();
  const OpenLesson here = opened_with(lesson, engine);
  const OpenLesson a100 = opened_with(lesson, [&](LessonRun run, const LessonLibrary& library, const StillWanted& wanted) {
    run.options["gpu"] = "nvidia-a100-80gb-sxm";
    return engine(run, library, wanted);
  });
  const OpenLesson slower = opened_with(lesson, [&](const LessonRun& run, const LessonLibrary& library, const StillWanted& wanted) {
    RunFacts facts = engine(run, library, wanted);
    Json document = *facts.document;
    Json& time = document["recorded"]["time_us"];
    if (time.is_number()) time = 2 * time.get<double>();  // of a run that was never measured it is a reason
    facts.document = std::make_shared<const Json>(std::move(document));
    return facts;
  });
  CHECK(here.value("std.machine.title") == "NVIDIA H200 SXM");
  CHECK(a100.value("std.machine.title") == "NVIDIA A100 SXM 80 GB");
  CHECK(contains(a100.value("std.recorded.time_us in ms"), "unavailable (no recording of nvidia-a100-80gb-sxm"));
  CHECK(slower.value("std.recorded.time_us in ms") != here.value("std.recorded.time_us in ms"));
  CHECK(slower.value("std.hbm_read_bytes in MB") == here.value("std.hbm_read_bytes in MB"));
  int changed = 0, machine_bound = 0;
  for (std::size_t n = 0; n < here.questions.size(); ++n) {
    if (lesson.asks[n].answer.find("machine") == std::string::npos) continue;
    ++machine_bound;
    changed += !(here.questions[n].right == a100.questions[n].right);
    CHECK(grade_number(a100.questions[n], here.questions[n].right_text()).verdict == Grade::Verdict::wrong);
    CHECK(grade_number(a100.questions[n], a100.questions[n].right_text()).verdict == Grade::Verdict::right);
  }
  CHECK(machine_bound > 0);
  CHECK(changed == machine_bound);
}

TEST_CASE(
    "every lesson opens for another machine: its title and numbers follow, what was never measured there is said") {
  const LessonEngine engine = make_lesson_engine();
  const LessonEngine on_a100 = [&](LessonRun run, const LessonLibrary& library, const StillWanted& wanted) {
    if (run.tensors.empty()) run.options.emplace("gpu", "nvidia-a100-80gb-sxm");  // a run that names its GPU keeps it
    return engine(run, library, wanted);
  };
  for (const Lesson& lesson : read_lessons(LessonLibrary::shipped()).lessons) {
    CAPTURE(lesson.file);
    const OpenLesson open = opened_with(lesson, on_a100);
    CHECK(open.questions.size() == lesson.asks.size());
    for (const auto& [expression, shown] : open.values) {
      CAPTURE(expression);
      CHECK(!shown.empty());
      const std::string run = expression.substr(0, expression.find('.'));
      if (contains(expression, ".recorded.") && expression.find_first_of("+-*/(") == std::string::npos)
        CHECK(contains(shown, "unavailable (no recording of nvidia-"));
      if (expression == run + ".machine.title" && open.runs.count(run) &&
          open.runs.at(run).settings->gpu == "nvidia-a100-80gb-sxm")
        CHECK(shown == "NVIDIA A100 SXM 80 GB");
    }
    for (const std::string& fault : open.faults) {
      CAPTURE(fault);
      CHECK(fault.rfind(lesson.file + ":", 0) == 0);
    }
  }
}

TEST_CASE(
    "what a run's recorded values are called stands in the format's description, and does not hang on whether it was "
    "measured") {
  const std::string described = read_text_file(source_file("docs/file-formats.md"));
  const LessonEngine engine = make_lesson_engine();
  LessonRun run = testing::lesson_of("```run r\nalgorithm = \"flash_v2\"\n```\n## S\ntext\n").runs[0];
  std::set<std::string> measured, absent;
  const RunFacts here = engine(run, LessonLibrary::shipped(), {});
  for (const auto& item : (*here.document)["recorded"].items()) {
    CAPTURE(item.key());
    measured.insert(item.key());
    CHECK(contains(described, "`" + item.key() + "`"));
  }
  CHECK((*here.document)["recorded"]["time_us"].is_number());
  run.options["gpu"] = "nvidia-t4";
  const RunFacts there = engine(run, LessonLibrary::shipped(), {});
  for (const auto& item : (*there.document)["recorded"].items()) {
    absent.insert(item.key());
    CHECK(item.value() == "unavailable (no recording of nvidia-t4 is shipped)");
  }
  CHECK(absent == measured);
  CHECK(here.recordings == there.recordings);  // read once
}

TEST_CASE("the eight keys of the lesson are those of the tests") {
  const AttendInput lesson =
      attend_input_from_json(LessonLibrary::shipped().text("eight-keys.json"), "eight-keys.json");
  const AttendInput tests = read_attend_json(test_data("online_softmax_example.json"));
  CHECK(lesson.inputs.q.values == tests.inputs.q.values);
  CHECK(lesson.inputs.k.values == tests.inputs.k.values);
  CHECK(lesson.inputs.v.values == tests.inputs.v.values);
  CHECK(lesson.problem.scale() == tests.problem.scale());
}

TEST_CASE("terms have one meaning each") {
  std::set<std::string> names;
  for (const Term& term : terms()) {
    CAPTURE(std::string(term.name));
    CHECK(names.insert(term.name).second);
    CHECK(std::string(term.meaning).size() > 10);
    CHECK(find_term(term.name) == &term);
  }
  CHECK(find_term("no such thing") == nullptr);
}

/// Faults of a lesson in a folder of its own.
std::vector<std::string> faults_of(const std::string& body) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("t.md")) << testing::kFront << body;
  std::ofstream(folder.path("t.png")) << "GIF89a";
  const LessonLibrary library = LessonLibrary::of_folder(folder.folder().string());
  return check_lesson(open_lesson(library.lesson("t"), library, make_lesson_engine()), library).faults;
}

const std::string kRun = "```run r\nseqlen = 128\nheads = 1\n```\n";
const std::string kChoice =
    "```ask\nkind = \"choice\"\nid = \"c\"\nquestion = \"?\"\nright = \"r\"\nwrong = [\"w\"]\nreason = \"x\"\n```\n";

std::string number_ask(const std::string& answer, const std::string& more) {
  return "```ask\nkind = \"number\"\nid = \"n\"\nquestion = \"?\"\nanswer = \"" + answer + "\"\nreason = \"x\"\n" +
         more + "```\n";
}

TEST_CASE("a sound lesson has no fault") {
  CHECK(faults_of(kRun +
                  "## S\nA [[tile]], {{ r.sm_read_bytes in MB }}\n\n```show\nruns = [\"r\"]\noperation = \"load K\"\nj "
                  "= 1\n```\n" +
                  number_ask("r.sm_read_bytes", "unit = \"kB\"\n") + kChoice)
            .empty());
}

TEST_CASE("each kind of fault is seen, with its line") {
  const std::pair<std::string, std::string> cases[] = {
      {"## S\n[[flux capacitor]]\n\n" + kChoice, "t.md:8: [[flux capacitor]] is no known term"},
      {"## S\n[x](other.md)\n\n" + kChoice, "'other.md' is not in the lesson's folder"},
      {"## S\n[x](../x.md)\n\n" + kChoice, "outside the lesson's folder"},
      {"## S\n\n![p](p.png)\n\n" + kChoice, "'p.png' is not in the lesson's folder"},
      {"## S\n```run r\nseqlen = 12a\n```\n" + kChoice, "t.md:9: "},
      {"## S\n```run r\nseqlen = \"abc\"\n```\n" + kChoice, "run r: --seqlen: 'abc'"},
      {"## S\n```run r\nblock = 3\n```\n" + kChoice, "'block' is not one of the problem options"},
      {"## S\n```run r\ngpu = \"../my.json\"\n```\n" + kChoice, "a lesson takes a shipped description"},
      {"## S\n```run r\nblock-mask = \"/etc/passwd\"\n```\n" + kChoice, "block-mask: a lesson takes a preset"},
      {kRun + "## S\n```claims\nr.flops = 1\n```\n" + kChoice, "t.md:13: the claim 'r.flops = 1' is false"},
      {kRun + "## S\n```claims\nr.flops\n```\n" + kChoice, "is no comparison"},
      {kRun + "## S\n```show\nruns = [\"r\"]\noperation = \"load X\"\n```\n" + kChoice, "no operation 'load X'"},
      {kRun + "## S\n```show\nruns = [\"r\"]\noperation = \"load K\"\nj = 99\n```\n" + kChoice,
       "no operation 'load K' with these tile indices"},
      {kRun + "## S\n```show\nruns = [\"q\"]\n```\n" + kChoice, "'q' is not one of the runs r"},
      {kRun + "```run q\nlike = \"r\"\nhead-dim = 32\n```\n## S\n```show\nruns = [\"r\", \"q\"]\n```\n" + kChoice,
       "differ in more than algorithm and tile"},
      {kRun + "## S\n```show\nruns = [\"r\"]\nkernel = \"k\"\noperation = \"load K\"\n```\n" + kChoice,
       "kernel: 'k' is not one of flash_v2"},
      {kRun + "## S\n" + number_ask("r.sm_read_bytes", "mistakes = [[\"r.sm_read_bytes * 1.001\", \"x\"]]\n") + kChoice,
       "is graded right instead of wrong"},
      {kRun + "## S\n" + number_ask("r.gpu", "") + kChoice, "no number"},
      {kRun + "## S\n{{ r.recorded.time_us in ms }}\n\n" + kChoice,
       "unavailable (the recording of nvidia-h200 has no row for this run)"},
      {"## S\ntext\n\n## T\ntext\n", "the last step asks nothing"},
      {"## S\ntext\n\n## S\n" + kChoice, "a second step is called 'S'"},
      {"## S\n```ask\nkind = \"order\"\nquestion = \"?\"\nitems = [[\"a\", \"1\"], [\"b\", \"1\"]]\nreason = "
       "\"x\"\n```\n" +
           kChoice,
       "are equal, so no order is right"},
      {"## S\n```ask\nkind = \"order\"\nquestion = \"?\"\nitems = [[\"a\", \"1\"], [\"b\", \"exp(1000) - "
       "exp(1000)\"]]\nreason = \"x\"\n```\n" +
           kChoice,
       "is not a number (NaN)"},
      {"## S\n\n![t](t.png)\n\n" + kChoice, "t.md:9: 't.png' is no PNG picture"},
  };
  for (const auto& [body, expected] : cases) {
    CAPTURE(body);
    const std::string& text = body;
    std::string all;
    try {
      for (const std::string& fault : faults_of(text)) all += fault + "\n";
    } catch (const Error& error) {
      all = error.what();
    }
    CAPTURE(all);
    CHECK(contains(all, expected));
  }
}

TEST_CASE("readability") {
  const Readability plain = readability("The cat sat on the mat. It was 3.5 years old.");
  CHECK(plain.sentences == 2);
  CHECK(plain.words == 10);
  CHECK(plain.ease() > 90);
  CHECK(readability("").ease() == 0);
}

}  // namespace
}  // namespace flashscope::viz
