#include <doctest/doctest.h>

#include <random>

#include "tests/lessons/support.h"
#include "tests/support/temporary_folder.h"
#include "viz/core/lesson_page.h"
#include "viz/io/toml.h"

namespace flashscope::viz {
namespace {

using testing::contains;
using testing::lesson_of;
using testing::message_of;
using Kind = LessonBlock::Kind;

/// The text alone, with `value` for each value.
std::string plain_text(const LessonText& text, const std::string& value = "") {
  std::string plain;
  for (const LessonSpan& span : text) plain += span.kind == LessonSpan::Kind::value ? value : span.text;
  return plain;
}

TEST_CASE("blocks and spans of a lesson") {
  const Lesson lesson = lesson_of(
      "## First step\n\nA [[tile]] of [[keys|K]] is `K[j]`,\n**not** *S*; see [more](https://example.org) and {{ r.x "
      "in MB }}.\n\n"
      "- one\n  two\n- three\n\n1. a\n2. b\n\n> said\n\n### Heading\n\n| a | [[shown|K]] |\n|---|---|\n| 1 | {{ r.x }} "
      "|\n\n```text\ncode\n```\n\n"
      "![a picture](p.png)\n\n## Second\n2 * 3 \\[is\\] 6\n");
  REQUIRE(lesson.steps.size() == 2);
  const auto& blocks = lesson.steps[0].blocks;
  const Kind kinds[] = {Kind::paragraph, Kind::bullet,  Kind::bullet, Kind::numbered, Kind::numbered,
                        Kind::quote,     Kind::heading, Kind::table,  Kind::code,     Kind::image};
  REQUIRE(blocks.size() == std::size(kinds));
  for (std::size_t n = 0; n < blocks.size(); ++n) CHECK(blocks[n].kind == kinds[n]);
  CHECK(plain_text(blocks[0].text, "#") == "A tile of keys is K[j], not S; see more and #.");
  CHECK(blocks[0].text[3].target == "K");
  CHECK(plain_text(blocks[1].text) == "one two");
  CHECK(blocks[4].number == 2);
  REQUIRE(blocks[7].table.size() == 2);
  CHECK(blocks[7].table[0].size() == 2);
  CHECK(blocks[8].code == "code\n");
  CHECK(plain_text(lesson.steps[1].blocks[0].text) == "2 * 3 [is] 6");
  CHECK(lesson.steps[0].title == "First step");
}

TEST_CASE("runs inherit, shows and asks name their step") {
  const Lesson lesson = lesson_of(
      "```run a\nseqlen = 1024\ncausal = true\n```\n```run b\nlike = \"a\"\nseqlen = 2048\ntimed = false\n```\n## "
      "S\ntext\n## T\n"
      "```show\nruns = [\"a\", \"b\"]\noperation = \"load K\"\nj = 3\nmoment = \"end\"\n```\n"
      "```ask\nkind = \"choice\"\nquestion = \"q\"\nright = \"r\"\nwrong = [\"w\"]\nreason = \"x\"\n```\n");
  CHECK(lesson.runs[1].options.at("seqlen") == "2048");
  CHECK(lesson.runs[1].options.at("causal") == "true");
  CHECK_FALSE(lesson.runs[1].timed);
  CHECK(lesson.shows[0].step == 1);
  CHECK(lesson.shows[0].moment == 1);
  CHECK(lesson.asks[0].id == "2.1");
}

TEST_CASE("an item ends where the next begins, a rule is the second line of a table, a backslash keeps a bar") {
  const Lesson lesson = lesson_of(
      "## S\n* a\n* b\n  c\n- d\n\n| x | y |\n|---|---|\n| - | - |\n| p \\| q | [[shown\\|K|K]] |\n\n| x |\n| y |\n");
  const auto& blocks = lesson.steps[0].blocks;
  REQUIRE(blocks.size() == 5);
  const char* items[] = {"a", "b c", "d"};
  for (std::size_t n = 0; n < 3; ++n) {
    CHECK(blocks[n].kind == Kind::bullet);
    CHECK(plain_text(blocks[n].text) == items[n]);
  }
  REQUIRE(blocks[3].table.size() == 3);
  CHECK(plain_text(blocks[3].table[1][0]) == "-");
  REQUIRE(blocks[3].table[2].size() == 2);
  CHECK(plain_text(blocks[3].table[2][0]) == "p | q");
  CHECK(blocks[4].table.size() == 2);
}

TEST_CASE("a show refuses what its panel does not know, or what says where in no operation, with the key's line") {
  const auto said = [](const std::string& keys) {
    return message_of([&] { lesson_of("## S\n```show\nruns = [\"r\"]\n" + keys + "\n```\n"); });
  };
  for (const char* panel : {"memory", "roofline", "occupancy"}) {
    CAPTURE(std::string(panel));
    CHECK(contains(said("panel = \"" + std::string(panel) + "\"\nj = 1"), "t.md:11: j: "));
  }
  CHECK(said("panel = \"softmax\"\nj = 1") == "");
  for (const char* key : {"kernel = \"flash_v2\"", "i = 1", "j = 1", "moment = \"end\""}) {
    CAPTURE(std::string(key));
    CHECK(contains(said("\n" + std::string(key)), "t.md:11: "));
    CHECK(said("operation = \"load K\"\n" + std::string(key)) == "");
  }
  CHECK(said("moment = \"done\"\ncta = 3\npoint = \"S\"") == "");
  CHECK(contains(said("operation = \"load K\"\nmoment = \"noon\""), "t.md:11: moment: 'noon'"));
  CHECK(contains(said("panel = \"clock\""), "t.md:10: panel: 'clock'"));
}

TEST_CASE("faults name file and line") {
  const std::string ask =
      "```ask\nkind = \"choice\"\nquestion = \"q\"\nright = \"r\"\nwrong = [\"w\"]\nreason = \"x\"\n";
  const std::pair<std::string, std::string> cases[] = {
      {"no step\n", "t.md:7: text before the first step"},
      {"# Title\n", "t.md:7: "},
      {"## S\n{{ open\n", "t.md:8: '{{' is not closed"},
      {"## S\n```run A\n```\n", "t.md:8: ```run NAME"},
      {"## S\n```run a\nseqlen = \n```\n", "t.md:9: "},
      {"## S\n```run a\n", "t.md:8: this fence is not closed"},
      {"## S\n```run a\n```\n```run a\n```\n", "t.md:10: a run named 'a' stands in line 8"},
      {"## S\n```run b\nlike = \"a\"\n```\n", "no run named 'a'"},
      {"## S\n```run b\ntensors = \"../../etc/passwd\"\n```\n", "outside the lesson's folder"},
      {"## S\n```show\nrun = \"a\"\n```\n", "t.md:9: 'run' is not one of runs"},
      {"## S\n```ask\nkind = \"essay\"\nquestion = \"q\"\nreason = \"x\"\n```\n", "number, choice, order"},
      {"## S\n" + ask + "answr = \"1\"\n```\n", "t.md:14: 'answr' is not one of"},
      {"## S\n```ask\nkind = \"number\"\nquestion = \"q\"\nreason = \"x\"\n```\n", "'answer' is missing"},
      {"## S\n| a | b |\n|---|---|\n| 1 |\n", "t.md:10: this row has 1 cells"},
      {"## S\n[text] without\n", "write '\\['"},
      {"## S\n**[[K]]**\n", "t.md:8: a term or a value inside '**'"}};
  for (const auto& [body, expected] : cases) {
    CAPTURE(body);
    const std::string& text = body;
    const std::string said = message_of([&] { lesson_of(text); });
    CAPTURE(said);
    CHECK(contains(said, expected));
  }
  CHECK(contains(message_of([] { parse_lesson("## S\n", "x.md"); }), "x.md:1: a lesson begins with '+++'"));
  CHECK(contains(message_of([] { parse_lesson("+++\nid = \"a\"\n", "x.md"); }), "not closed"));
  CHECK(contains(message_of([] { parse_lesson("+++\nid = \"a\"\nid = \"b\"\n+++\n", "x.md"); }), "x.md:3"));
}

TEST_CASE("F06: byte order mark, CRLF, both, no final newline; UTF-16 is refused by name") {
  const TemporaryFolder folder;
  const std::string clean = std::string(testing::kFront) +
                            "## Step\n\ntext\n\n```ask\nkind = \"choice\"\nid = \"q\"\nquestion = \"?\"\nright = "
                            "\"r\"\nwrong = [\"w\"]\nreason = \"x\"\n```";
  std::string crlf;
  for (char c : clean) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  const std::string texts[] = {clean, "\xEF\xBB\xBF" + clean, crlf, "\xEF\xBB\xBF" + crlf, clean + "\n"};
  for (const std::string& text : texts) {
    std::ofstream(folder.path("a.md"), std::ios::binary) << text;
    const Lesson lesson = LessonLibrary::of_folder(folder.folder().string()).lesson("a");
    CHECK(lesson.title == "T");
    CHECK(lesson.steps[0].title == "Step");
    CHECK(plain_text(lesson.steps[0].blocks[0].text) == "text");
    CHECK(lesson.asks[0].right == "r");
  }
  std::string wide = "\xFF\xFE";
  for (char c : clean) wide += std::string{c, '\0'};
  std::ofstream(folder.path("a.md"), std::ios::binary) << wide;
  CHECK(contains(message_of([&] { LessonLibrary::of_folder(folder.folder().string()).lesson("a"); }), "UTF-16"));
}

TEST_CASE("L03: a missing picture leaves a placeholder, paths outside the folder are refused, the lesson goes on") {
  const TemporaryFolder folder, outside;
  std::ofstream(outside.path("secret.png")) << "secret";
  std::filesystem::create_symlink(outside.path("secret.png"), folder.path("link.png"));
  std::ofstream(folder.path("a.md"))
      << testing::kFront
      << "## S\n\n![one](missing.png)\n\n![two](../../x)\n\n![three](/etc/passwd)\n\n![four](link.png)\n\nmore\n";
  const LessonLibrary library = LessonLibrary::of_folder(folder.folder().string());
  const OpenLesson open = open_lesson(library.lesson("a"), library, testing::fixed_engine());
  const LessonPage page = lesson_page(open, go_to_lesson({}, &open.lesson));
  REQUIRE(page.blocks.size() == 5);
  const char* names[] = {"missing.png", "../../x", "/etc/passwd", "link.png"};
  for (std::size_t n = 0; n < 4; ++n) {
    CHECK(page.blocks[n].picture.empty());
    CHECK(contains(page.blocks[n].text[0].text, names[n]));
  }
  CHECK(page.blocks[4].text[0].text == "more");
  CHECK(open.pictures.empty());
  CHECK_THROWS_AS(library.bytes("../secret.png"), Error);
  CHECK_THROWS_AS(library.bytes("link.png"), Error);
}

TEST_CASE("a link leads to a page of the web or a file of the folder, and to nothing that a browser would run") {
  for (const char* address : {"https://a.org/x", "http://a.org", "other.md", "sub/x.png"})
    CHECK(is_link_address(address));
  for (const char* address : {"javascript:alert", "JavaScript:alert", "data:text/html,x", "file:///etc/passwd",
                              "//a.org/x", "../x.md", "/etc/passwd", ""})
    CHECK_FALSE(is_link_address(address));
  const OpenLesson open = testing::opened("## S\n[here](javascript:alert) and [there](https://a.org)\n");
  const LessonPage page = lesson_page(open, {});
  REQUIRE(page.blocks.size() == 1);
  REQUIRE(page.blocks[0].text.size() == 3);
  CHECK(page.blocks[0].text[0].style == PageSpan::Style::text);
  CHECK(page.blocks[0].text[0].text == "here");
  CHECK(page.blocks[0].text[2].style == PageSpan::Style::link);
}

TEST_CASE("whether a picture is there is found out when the lesson opens, and without reading it") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("here.png")) << "any bytes";
  std::ofstream(folder.path("large.png")) << "any bytes";
  std::filesystem::resize_file(folder.path("large.png"), std::uintmax_t{65} << 20);
  std::ofstream(folder.path("a.md")) << testing::kFront << "## S\n\n![one](here.png)\n\n![two](large.png)\n";
  const LessonLibrary library = LessonLibrary::of_folder(folder.folder().string());
  CHECK(library.has("here.png"));
  CHECK_FALSE(library.has("large.png"));  // and bytes() refuses it
  CHECK_THROWS_AS(library.bytes("large.png"), Error);
  CHECK_FALSE(library.has("none.png"));
  const OpenLesson open = open_lesson(library.lesson("a"), library, testing::fixed_engine());
  std::filesystem::remove(folder.path("here.png"));
  const LessonPage page = lesson_page(open, go_to_lesson({}, &open.lesson));
  CHECK(page.blocks[0].picture == "here.png");
  CHECK(page.blocks[1].picture.empty());
}

TEST_CASE("what cannot be computed is a fault with its line, and the rest is there") {
  const OpenLesson open = testing::opened(
      "## S\n```run r\n```\nA {{ r.nothing }} and {{ r.bytes in MB }}, {{ r.absent in MB }}\n\n{{ 1 in Mbit }}\n");
  CHECK(open.value("r.bytes in MB") == "4.46 MB");
  CHECK(open.value("r.absent in MB") == "unavailable (no GPU)");
  REQUIRE(open.faults.size() == 3);
  CHECK(contains(open.faults[0], "t.md:10: in 'r.nothing'"));
  CHECK(contains(open.faults[1], "unavailable"));
  CHECK(contains(open.faults[2], "t.md:12: "));
}

TEST_CASE("a run that failed is not called unknown") {
  const LessonEngine fails = [](const LessonRun&, const LessonLibrary&, const StillWanted&) -> RunFacts {
    throw Error(ErrorKind::input, "no such GPU");
  };
  const OpenLesson open = open_lesson(lesson_of("```run std\n```\n## S\n{{ std.bytes }} and {{ flash.bytes }}\n"),
                                      LessonLibrary::shipped(), fails);
  REQUIRE(open.faults.size() == 3);
  CHECK(open.faults[0] == "t.md:7: run std: no such GPU");
  CHECK(contains(open.faults[1], "'std' could not be predicted; its own line says why"));
  CHECK(contains(open.faults[2], "'flash' is not one of the runs std"));
}

TEST_CASE("no text makes the parser do anything but return or throw an Error") {
  std::mt19937 random(20261129);
  const std::string pieces[] = {"## a\n",
                                "```run a\n",
                                "```\n",
                                "```ask\n",
                                "kind = \"number\"\n",
                                "[[",
                                "]]",
                                "{{",
                                "}}",
                                "|",
                                "- ",
                                "1. ",
                                "\n",
                                "`",
                                "**",
                                "*",
                                "![",
                                "](",
                                ")",
                                "\\",
                                "x",
                                "[",
                                "question = \"q\"\n",
                                "+++\n",
                                "\xEF",
                                "\xFF",
                                "'''"};
  for (int n = 0; n < 3000; ++n) {
    std::string text = n % 4 ? testing::kFront : "";
    for (unsigned length = random() % 20; length > 0; --length) text += pieces[random() % std::size(pieces)];
    CAPTURE(text);
    message_of([&] { parse_lesson(text, "fuzz.md"); });
  }
}

}  // namespace
}  // namespace flashscope::viz
