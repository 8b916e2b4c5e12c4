// A lesson file that is broken in any way says where, and costs the others nothing.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/lessons/support.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_folder.h"
#include "viz/core/lesson_check.h"
#include "viz/io/files.h"

namespace flashscope::viz {
namespace {

using testing::contains;
using testing::message_of;

const std::string kAsk =
    "## E\n```ask\nkind = \"choice\"\nquestion = \"?\"\nright = \"r\"\nwrong = [\"w\"]\nreason = \"x\"\n```\n";

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int n = 0; n < times; ++n) text += piece;
  return text;
}

std::string utf16(const std::string& text, bool big_endian, bool mark) {
  std::string wide = !mark ? "" : big_endian ? "\xFE\xFF" : "\xFF\xFE";
  for (char c : text) wide += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return wide;
}

/// "name.md:12: …": file and line stand in front.
bool names_file_and_line(const std::string& fault, const std::string& file) {
  if (fault.rfind(file + ":", 0) != 0) return false;
  const std::size_t digits = fault.find_first_not_of("0123456789", file.size() + 1);
  return digits != std::string::npos && digits > file.size() + 1 && fault[digits] == ':';
}

TEST_CASE("broken lesson files say file and line, and the other lessons still open") {
  const std::string front = testing::kFront, good = LessonLibrary::shipped().text("04-tiles.md");
  const std::pair<const char*, std::string> broken[] = {
      {"empty", ""},
      {"cut", good.substr(0, good.find("```show") + 20)},
      {"cut-in-front", good.substr(0, 60)},
      {"binary", std::string("+++\n\0\1\2\xFF", 8)},
      {"latin-1", front + "## S\n```run a\ngpu = \"caf\xE9\"\n```\n" + kAsk},
      {"utf-16", utf16(good, false, true)},
      {"utf-16-big", utf16(good, true, true)},
      {"utf-16-unmarked", utf16(good, false, false)},
      {"unknown-key", "+++\nid = \"u\"\nnumber = 1\ntitle = \"T\"\ncolour = \"red\"\nsummary = \"S\"\n+++\n" + kAsk},
      {"unknown-key-of-ask", front + "## S\n```ask\nkind = \"choice\"\nquestoin = \"?\"\n```\n"},
      {"number-as-text", "+++\nid = \"u\"\nnumber = \"one\"\ntitle = \"T\"\nsummary = \"S\"\n+++\n" + kAsk},
      {"nested-lists", front + "## S\n```run a\nx = " + repeated("[", 100'000) + "\n```\n" + kAsk},
      {"nested-tables", front + "## S\n```run a\nx = " + repeated("{a=", 100'000) + "\n```\n" + kAsk},
      {"nested-keys", front + "## S\n```run a\n" + repeated("a.", 100'000) + "a = 1\n```\n" + kAsk},
      {"nested-quoted-keys", front + "## S\n```run a\nb = {" + repeated("\"a\" . ", 100'000) + "a = 1}\n```\n" + kAsk},
      {"nested-header", "+++\n[" + repeated("a.", 100'000) + "a]\n+++\n" + kAsk},
      {"nested-terms", front + "## S\n" + repeated("[[", 100'000) + repeated("]]", 100'000) + "\n" + kAsk},
      {"outside", front + "```run a\ntensors = \"../secret.json\"\n```\n## S\n" + kAsk},
      {"absolute", front + "```run a\ntensors = \"/etc/passwd\"\n```\n## S\n" + kAsk},
      {"same-id", std::string(good)},
  };
  const TemporaryFolder folder;
  std::ofstream(folder.path("00-good.md"), std::ios::binary) << good;
  for (const auto& [name, text] : broken)
    std::ofstream(folder.path(std::string(name) + ".md"), std::ios::binary) << text;
  const LessonLibrary library = LessonLibrary::of_folder(folder.folder().string());
  const LessonList list = read_lessons(library);
  REQUIRE(list.lessons.size() == 1);
  CHECK(list.lessons[0].name == "00-good");
  for (const auto& [name, text] : broken) {
    const std::string file = std::string(name) + ".md";
    CAPTURE(file);
    const auto fault = std::find_if(list.faults.begin(), list.faults.end(),
                                    [&](const std::string& f) { return f.rfind(file, 0) == 0; });
    REQUIRE(fault != list.faults.end());
    CAPTURE(*fault);
    CHECK(names_file_and_line(*fault, file));
    CHECK(fault->size() < 400);
  }
  const OpenLesson open = open_lesson(library.lesson("tiles"), library, testing::fixed_engine());
  CHECK(open.lesson.name == "00-good");
}

TEST_CASE("a folder, a pipe and a dangling link called .md are faults, and nobody waits for them") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("good.md"), std::ios::binary) << LessonLibrary::shipped().text("04-tiles.md");
  std::filesystem::create_directory(folder.path("folder.md"));
  REQUIRE(mkfifo(folder.path("pipe.md").c_str(), 0600) == 0);
  std::filesystem::create_symlink("nowhere.md", folder.path("link.md"));
  const LessonList list = read_lessons(LessonLibrary::of_folder(folder.folder().string()));
  CHECK(list.lessons.size() == 1);
  REQUIRE(list.faults.size() == 3);
  for (const std::string& fault : list.faults) CHECK(names_file_and_line(fault, fault.substr(0, fault.find(':'))));
  for (const char* name : {"folder.md", "link.md", "pipe.md"})
    CHECK(std::count_if(list.faults.begin(), list.faults.end(),
                        [&](const std::string& fault) { return contains(fault, name); }) == 1);
}

TEST_CASE("what parses and cannot be computed is told with file and line too, however deep it nests") {
  for (const std::string& text :
       {repeated("(", 450), repeated("(", 100'000), repeated("-", 400) + "1/0", repeated("2^", 240) + "x",
        repeated("max(1,", 80), "r" + repeated("[0]", 100), "r" + repeated(".a", 100)}) {
    const OpenLesson open = testing::opened("## S\n```run r\n```\n{{ " + text + " }}\n\n" + kAsk);
    CAPTURE(text.substr(0, 20));
    REQUIRE(open.faults.size() == 1);
    CHECK(names_file_and_line(open.faults[0], "t.md"));
  }
}

TEST_CASE("a question without its parts, or with those of another kind, is refused with the key's line") {
  const auto asked = [](const std::string& keys) { return "## S\n```ask\nreason = \"x\"\n" + keys + "```\n" + kAsk; };
  const std::string number = "kind = \"number\"\nanswer = \"1\"\n", q = "question = \"?\"\n";
  const std::string choice = "kind = \"choice\"\n" + q, order = "kind = \"order\"\n" + q;
  const std::pair<std::string, std::string> cases[] = {
      {number + "question = \" \"\n", "t.md:12: the question is empty"},
      {number + q + "id = \" \"\n", "t.md:13: 'id' is empty"},
      {number + q + "id = \"a\\u001b[31m\"\n", "t.md:13: 'id' has control characters"},
      {number + q + "id = \"" + repeated("x", 201) + "\"\n", "t.md:13: 'id' has more than 200 bytes"},
      {number + q + "unit = \"" + repeated("x", 201) + "\"\n", "t.md:13: unit: a text of one line"},
      {number + q + "hint = [\"a\", \"\"]\n", "t.md:13: a hint is empty"},
      {number + q + "hint = [" + repeated("\"h\",", 201) + "]\n", "t.md:13: 'hint' has 201 entries; at most 200"},
      {number + q + "right = \"r\"\n", "t.md:13: right: means nothing to a question of the kind 'number'"},
      {number + q + "descending = true\n", "t.md:13: descending: means nothing to a question of the kind 'number'"},
      {choice + "right = \"\"\nwrong = [\"w\"]\n", "t.md:12: an option is empty"},
      {choice + "right = \"r\"\nwrong = [\"w\", \"\"]\n", "t.md:13: an option is empty"},
      {choice + "right = \"r\"\nwrong = [\"w\"]\nunit = \"%\"\n", "t.md:14: unit: means nothing to a question"},
      {order + "items = [\"a\", \"\"]\n", "t.md:12: an item is empty"},
      {order + "items = [\"a\", \"b\"]\nmistakes = [" + repeated("[\"b\", \"a\", \"x\"],", 201) + "]\n",
       "t.md:13: 'mistakes' has 201 entries; at most 200"},
  };
  for (const auto& [keys, expected] : cases) {
    CAPTURE(expected);
    const std::string told = message_of([&] { testing::lesson_of(asked(keys)); });
    CAPTURE(told);
    CHECK(contains(told, expected));
  }
  // A name of a lesson reaches the terminal, and progress files.
  const auto named = [](const std::string& id, const std::string& title) {
    return message_of([&] {
      parse_lesson("+++\nnumber = 1\nid = \"" + id + "\"\ntitle = \"" + title + "\"\nsummary = \"S\"\n+++\n" + kAsk,
                   "t.md");
    });
  };
  CHECK(named("a", "T").empty());
  CHECK(contains(named(" ", "T"), "t.md:3: 'id' is empty"));
  CHECK(contains(named("a\\u0000", "T"), "t.md:3: 'id' has control characters"));
  CHECK(contains(named("a", "\\u001b[2J"), "t.md:4: title: it has control characters"));
}

TEST_CASE("options that only blanks or capitals tell apart are the same answer, and told so") {
  const std::string choice = "## S\n```ask\nkind = \"choice\"\nquestion = \"?\"\nreason = \"x\"\nright = \"A b\"\n",
                    order = "## S\n```ask\nkind = \"order\"\nquestion = \"?\"\nreason = \"x\"\n";
  const auto faults = [](const std::string& body) {
    const OpenLesson open = testing::opened(body + kAsk);
    return open.faults.empty() ? "" : open.faults[0];
  };
  CHECK(contains(faults(choice + "wrong = [\" a  B\"]\n```\n"), "t.md:8: two options read the same"));
  CHECK(contains(faults(order + "items = [\"a\", \"A\"]\n```\n"), "t.md:8: items: two of them read the same"));
}

TEST_CASE("an answer that is no number, or a tolerance that is none, is one fault and no list of them") {
  const auto asked = [](const std::string& keys) {
    return "## S\n```ask\nkind = \"number\"\nquestion = \"?\"\nreason = \"x\"\n" + keys + "```\n" + kAsk;
  };
  for (const auto& [keys, expected] :
       {std::pair{"answer = \"1e308 * 10 - 1e308 * 10\"\n", "is not a number (NaN), so nothing is right"},
        std::pair{"answer = \"1/0\"\n", "division by zero"},
        std::pair{"answer = \"(0-8)^0.5\"\n", "a root of a number below 0"},
        std::pair{"answer = \"\"\n", "something is missing"},
        std::pair{"answer = \"1\"\ntolerance = \"1e400\"\n", "tolerance: '1e400'"},
        std::pair{"answer = \"1\"\ntolerance = \"2 %%\"\n", "tolerance: '2 %%'"},
        std::pair{"answer = \"1\"\ntolerance = \"%2\"\n", "tolerance: '%2'"},
        std::pair{"answer = \"1\"\ntolerance = \"-5\"\n", "tolerance: '-5'"}}) {
    CAPTURE(keys);
    const LessonCheck check = check_lesson(testing::opened(asked(keys)), LessonLibrary::shipped());
    REQUIRE(check.faults.size() == 1);
    CHECK(contains(check.faults[0], "t.md:8: "));
    CHECK(contains(check.faults[0], expected));
  }
}

TEST_CASE("items of an order that read the same are a fault, not an endless shuffle") {
  const OpenLesson open = testing::opened(
      "## S\n```ask\nkind = \"order\"\nquestion = \"?\"\nreason = \"x\"\nitems = [[\"{{ 1 }}\", \"1\"], [\"{{ 2 - 1 "
      "}}\", "
      "\"2\"]]\n```\n");
  REQUIRE(open.faults.size() == 1);
  CHECK(names_file_and_line(open.faults[0], "t.md"));
  CHECK(contains(open.faults[0], "read the same"));
  const OpenLesson choice = testing::opened(
      "## S\n```ask\nkind = \"choice\"\nquestion = \"?\"\nreason = \"x\"\nright = \"{{ 4 }}\"\nwrong = [\"{{ 2 * 2 "
      "}}\"]\n```\n");
  REQUIRE(choice.faults.size() == 1);
  CHECK(contains(choice.faults[0], "read the same"));
}

TEST_CASE("what must not stand before what in an order is checked, item by item") {
  const auto asked = [](const std::string& mistakes) {
    return std::string(
               "## S\n```ask\nkind = \"order\"\nid = \"o\"\nquestion = \"?\"\nitems = [\"a\", \"b\", "
               "\"c\"]\nmistakes = ") +
           mistakes + "\nreason = \"so\"\n```\n";
  };
  for (const char* broken : {"[[\"b\", \"a\"]]", "[[\"b\", \"z\", \"why\"]]", "[\"b\"]", "[[\"b\", 1, \"why\"]]"}) {
    CAPTURE(std::string(broken));
    CHECK(names_file_and_line(message_of([&] { testing::lesson_of(asked(broken)); }), "t.md"));
  }
  const auto faults = [&](const char* mistakes) {
    return check_lesson(testing::opened(asked(mistakes)), LessonLibrary::shipped()).faults;
  };
  CHECK(faults("[[\"b\", \"a\", \"why\"]]").empty());
  REQUIRE(faults("[[\"a\", \"b\", \"why\"]]").size() == 1);  // it does stand before it
  CHECK(testing::contains(faults("[[\"a\", \"b\", \"why\"]]")[0], "no mistake"));
}

TEST_CASE("a show of a panel says what it cannot show, with its line") {
  const auto shown = [](const std::string& keys) {
    const std::string text =
        std::string(testing::kFront) + "```run a\n```\n```run b\n```\n## S\n```show\n" + keys + "\n```\n" + kAsk;
    return message_of([&] { parse_lesson(text, "t.md"); });
  };
  for (const char* keys :
       {"runs = [\"a\"]\npanel = \"softmax\"\nj = 3", "runs = [\"a\", \"b\"]\npanel = \"roofline\"",
        "runs = [\"a\", \"b\", \"a\", \"b\"]\npanel = \"occupancy\"", "runs = [\"a\"]\npanel = \"memory\"",
        "runs = [\"a\"]\npanel = \"sweep\"\nover = \"br\"\nquantity = \"time\"",
        "runs = [\"a\"]\nview = \"GPU\"\nzoom = 8\ntimeline = \"tall\""}) {
    CAPTURE(std::string(keys));
    CHECK(shown(keys) == "");
  }
  for (const char* keys :
       {"runs = [\"a\"]\npanel = \"sweep\"", "runs = [\"a\"]\npanel = \"sweep\"\nover = \"br\"",
        "runs = [\"a\"]\npanel = \"curve\"", "runs = [\"a\"]\nover = \"br\"", "runs = [\"a\"]\nview = \"all\"",
        "runs = [\"a\"]\nzoom = 0", "runs = [\"a\"]\ntimeline = \"long\"",
        "runs = [\"a\"]\npanel = \"memory\"\nview = \"GPU\"", "runs = [\"a\", \"b\"]\npanel = \"softmax\"",
        "runs = [\"a\", \"b\", \"a\"]\npanel = \"memory\"", "runs = []\npanel = \"occupancy\"",
        "runs = [\"a\"]\npanel = \"memory\"\ncta = 1", "runs = [\"a\"]\npanel = \"softmax\"\npoint = \"S\""}) {
    CAPTURE(std::string(keys));
    CHECK(names_file_and_line(shown(keys), "t.md"));
  }
  // What only the runs can tell: no scores, no predicted run, no such run.
  for (const char* keys : {"runs = [\"r\"]\npanel = \"softmax\"", "runs = [\"r\"]\npanel = \"occupancy\"",
                           "runs = [\"r\"]\npanel = \"roofline\"", "runs = [\"zz\"]\npanel = \"softmax\""}) {
    CAPTURE(std::string(keys));
    const OpenLesson open = testing::opened("## S\n```run r\n```\n```show\n" + std::string(keys) + "\n```\n" + kAsk);
    const LessonCheck check = check_lesson(open, LessonLibrary::shipped());
    REQUIRE(check.faults.size() == 1);
    CHECK(names_file_and_line(check.faults[0], "t.md"));
  }
  // A tile behind the last: of eight keys in tiles of two.
  const LessonEngine eight_keys = [](const LessonRun&, const LessonLibrary&, const StillWanted&) {
    RunFacts facts;
    facts.document =
        std::make_shared<const Json>(Json{{"scores", {{1, 2, 3, 4, 5, 6, 7, 8}}}, {"tile", {{"br", 1}, {"bc", 2}}}});
    return facts;
  };
  for (const auto& [key, is_there] :
       {std::pair{"", true}, {"j = 3\n", true}, {"j = 4\n", false}, {"j = 2147483647\n", false}}) {
    CAPTURE(std::string(key));
    const std::string text =
        "## S\n```run r\n```\n```show\nruns = [\"r\"]\npanel = \"softmax\"\n" + std::string(key) + "```\n" + kAsk;
    const LessonCheck check = check_lesson(open_lesson(testing::lesson_of(text), LessonLibrary::shipped(), eight_keys),
                                           LessonLibrary::shipped());
    if (is_there) {
      CHECK(check.faults.empty());
    } else {
      REQUIRE(check.faults.size() == 1);
      CHECK(check.faults[0] == "t.md:10: j: 'r' has 4 key tiles; the last is 3");
    }
  }
}

TEST_CASE("a lesson file that is too large is refused with its line, and the others are listed") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("good.md")) << testing::kFront << kAsk;
  std::ofstream(folder.path("sparse.md")) << testing::kFront;
  std::filesystem::resize_file(folder.path("sparse.md"), std::uintmax_t{20} << 30);
  std::ofstream(folder.path("long.md")) << testing::kFront << "## S\n" << std::string(1'100'000, 'w') << "\n" << kAsk;
  const LessonList list = read_lessons(LessonLibrary::of_folder(folder.folder().string()));
  CHECK(list.lessons.size() == 1);
  REQUIRE(list.faults.size() == 2);
  CHECK(names_file_and_line(list.faults[0], "long.md"));
  CHECK(names_file_and_line(list.faults[1], "sparse.md"));
  CHECK(contains(list.faults[1], "at most 1048576"));
}

TEST_CASE("what never ends is read up to a limit") {
  CHECK(contains(message_of([] { read_text_file("/dev/zero"); }), "/dev/zero: more than"));
  const TemporaryFolder folder;
  std::ofstream(folder.path("a")) << "12345";
  CHECK(read_binary_file(folder.path("a"), 5) == "12345");
  CHECK(contains(message_of([&] { read_binary_file(folder.path("a"), 4); }), "more than 4 bytes"));
}

TEST_CASE("more runs, questions or items than a lesson has are refused with their line, and soon") {
  const auto said = [](const std::string& body) {
    return message_of([&] { parse_lesson(testing::kFront + body, "t.md"); });
  };
  std::string runs = "## S\n", asks = "## S\n", items;
  for (int n = 0; n < 60'000; ++n) {
    runs += "```run r" + std::to_string(n) + "\n```\n";
    asks += kAsk.substr(kAsk.find("```"));
  }
  for (int n = 0; n < 20'000; ++n) items += (n ? ", \"" : "\"") + std::to_string(n) + "\"";
  for (const std::string& fault :
       {said(runs + kAsk), said(asks),
        said("## S\n```ask\nkind = \"order\"\nquestion = \"?\"\nitems = [" + items + "]\nreason = \"x\"\n```\n")}) {
    CAPTURE(fault);
    CHECK(names_file_and_line(fault, "t.md"));
    CHECK(contains(fault, "at most"));
  }
}

TEST_CASE("what is not UTF-8 is told with its line") {
  for (const char* bytes : {"caf\xE9", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    const std::string text = std::string(testing::kFront) + "## S\n\nA " + bytes + "\n\n" + kAsk;
    CHECK(contains(message_of([&] { parse_lesson(text, "t.md"); }), "t.md:9: this line is not UTF-8"));
  }
  CHECK(message_of([] { testing::lesson_of("## S\n\né € 𝄞 \u0800 \uD7FF\n\n" + kAsk); }) == "");
}

TEST_CASE("check finds nothing wrong with an answer below zero, or without end") {
  for (const char* answer : {"-1", "-1.01", "-exp(1000)", "exp(1000)", "0", "1e308", "-2500000"}) {
    CAPTURE(std::string(answer));
    for (const char* unit : {"", "tiles"}) {
      const OpenLesson open =
          testing::opened("## S\n```ask\nkind = \"number\"\nquestion = \"?\"\nreason = \"x\"\nanswer = \"" +
                          std::string(answer) + "\"\nunit = \"" + unit + "\"\n```\n");
      const LessonCheck check = check_lesson(open, LessonLibrary::shipped());
      CHECK(check.faults == std::vector<std::string>());
    }
  }
}

TEST_CASE("a shipped lesson cut at any place, or with a few bytes changed, opens or names file and line") {
  const LessonLibrary library = LessonLibrary::shipped();
  std::mt19937 random(20261130);
  for (int n = 0; n < rounds(300); ++n) {
    const std::string& file = library.files()[random() % library.files().size()];
    std::string text = library.text(file);
    if (n % 2) text.resize(random() % text.size());
    for (unsigned changes = n % 2 ? 0 : 1 + random() % 8; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random() % 96 + 32);
    const std::string said = message_of([&] { parse_lesson(text, file); });
    CAPTURE(file);
    CAPTURE(said);
    CHECK((said.empty() || names_file_and_line(said, file)));
  }
}

}  // namespace
}  // namespace flashscope::viz
