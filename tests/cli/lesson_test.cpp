#include <doctest/doctest.h>

#include "tests/cli/support.h"
#include "viz/io/json_numbers.h"
#include "viz/io/toml.h"

namespace flashscope {
namespace {

const std::string kFront = "+++\nid = \"own\"\nnumber = 7\ntitle = \"Own\"\nsummary = \"S\"\n+++\n";
const std::string kBody =
    "```run r\nseqlen = 128\nheads = 1\n```\n\n## One <step>\n\nRead [[K]]: {{ r.sm_read_bytes in B }}\n\n"
    "```ask\nkind = \"number\"\nid = \"bytes\"\nquestion = \"?\"\nanswer = \"r.sm_read_bytes\"\nunit = \"B\"\nhint = "
    "\"h\"\nreason = \"because\"\n```\n\n"
    "```ask\nkind = \"order\"\nid = \"order\"\nquestion = \"?\"\nitems = [\"a\", \"b\", \"c\"]\nreason = "
    "\"abc\"\n```\n";

TEST_CASE("lesson list, check and export of the shipped lessons") {
  if (!can_read_toml()) return;
  const RunResult list = run_here({"lesson", "list"});
  CHECK(list.code == 0);
  CHECK(contains(list.out, "03-streaming-softmax"));
  const RunResult json = run_here({"lesson", "list", "--json"});
  CHECK(parse_json(json.out, "out").size() == 15);
  const RunResult one = run_here({"lesson", "check", "03-streaming-softmax"});
  CHECK(one.code == 0);
  CHECK(contains(one.out, "03-streaming-softmax"));
  for (const char* name : {"3", "streaming-softmax", "03-streaming-softmax.md"})
    CHECK(run_here({"lesson", "check", name}).code == 0);
  const RunResult page = run_here({"lesson", "export", "4"});
  CHECK(page.code == 0);
  CHECK(page.out.rfind("<!doctype html>", 0) == 0);
  CHECK(contains(page.out, "<svg"));
  CHECK(contains(page.out, "SM 0 over time"));
  CHECK(contains(page.out, "</html>"));
  for (const char* outside : {"src=\"http", "<script", "href=\"/", "{{", "[["})
    CHECK_FALSE(contains(page.out, outside));
}

TEST_CASE("a lecturer's own folder: run grades, export writes, faults name file and line") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "own.md", "\xEF\xBB\xBF" + kFront + kBody);
  const std::string dir = folder / "";
  CHECK(run_here({"lesson", "check", "--lessons", dir}).code == 0);
  // F06: answers too may begin with a byte order mark and have CRLF.
  write_file(folder / "a.json",
             "\xEF\xBB\xBF{\r\n\"answers\": {\"bytes\": \"49,152\",\r\n \"order\": [\"a\", \"b\", \"c\"]}}\r\n");
  RunResult result = run_here({"lesson", "run", "own", "--answers", folder / "a.json", "--lessons", dir});
  CHECK(result.code == 0);
  const Json report = parse_json(result.out, "out");
  CHECK(report["right"] == 1 + (report["asks"][0]["verdict"] == "right"));
  CHECK(report["asks"][1]["verdict"] == "right");
  CHECK(report.contains("flashscope"));
  CHECK(report["asks"][0]["expected"].get<std::string>().find(" B") != std::string::npos);

  CHECK(run_here({"lesson", "export", "own", "--lessons", dir, "--out", folder / "own.html"}).code == 0);
  CHECK(contains(read_file(folder / "own.html"), "One &lt;step&gt;"));
  write_file(folder / "wide.json", std::string("\xFF\xFE{\0}\0", 6));
  result = run_here({"lesson", "run", "own", "--answers", folder / "wide.json", "--lessons", dir});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "UTF-16"));
  CHECK(run_here({"lesson", "export", "own", "--lessons", dir, "--out", folder / "no/own.html"}).code == 7);

  const std::string front = "+++\nid = \"other\"" + kFront.substr(kFront.find("\nnumber"));
  write_file(folder / "bad.md", front + "## S\n{{ r.x }}\n");
  result = run_here({"lesson", "check", "--lessons", dir});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "bad.md:8: 'r' is not one of the runs"));
  CHECK(contains(result.err, "in 1 of 2 lessons"));
  CHECK(run_here({"lesson", "run", "bad", "--answers", folder / "a.json", "--lessons", dir}).code == 3);
  // Progress hangs on the id: two lessons with one would share it.
  write_file(folder / "bad.md", kFront + kBody);
  result = run_here({"lesson", "check", "--lessons", dir});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "own.md:2: the id 'own' is that of bad.md"));
}

TEST_CASE("lesson: what is wrong is said, with the exit code of its kind") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "a.json", "{\"answers\": {\"nothing\": 1}}");
  write_file(folder / "b.json", "{}");
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {{"lesson"}, 2},
      {{"lesson", "teach"}, 2},
      {{"lesson", "list", "3"}, 2},
      {{"lesson", "run", "3"}, 2},
      {{"lesson", "run", "--answers", folder / "a.json"}, 2},
      {{"lesson", "export", "99"}, 2},
      {{"lesson", "check", "99"}, 2},
      {{"lesson", "list", "--out", "x"}, 2},
      {{"lesson", "check", "--answers", "x"}, 2},
      {{"lesson", "run", "3", "--answers", folder / "a.json"}, 3},
      {{"lesson", "run", "3", "--answers", folder / "b.json"}, 3},
      {{"lesson", "run", "3", "--answers", folder / "none.json"}, 3},
      {{"lesson", "check", "--lessons", folder / "none"}, 3},
      {{"lesson", "check", "--lessons", folder / ""}, 3}};
  for (const auto& [arguments, code] : cases) {
    CAPTURE(arguments.back());
    const RunResult result = run_here(arguments);
    CHECK(result.code == code);
    CHECK(is_one_line_error(result));
  }
}

}  // namespace
}  // namespace flashscope
