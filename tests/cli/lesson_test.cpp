#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "sim/schedule/algorithms.h"
#include "tests/cli/support.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"
#include "viz/io/recording.h"
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
  const auto graded = [&](const std::string& bytes) {
    write_file(folder / "a.json", "\xEF\xBB\xBF{\r\n\"answers\": {\"bytes\": \"" + bytes +
                                      "\",\r\n \"order\": [\"a\", \"b\", \"c\"]}}\r\n");
    const RunResult run = run_here({"lesson", "run", "own", "--answers", folder / "a.json", "--lessons", dir});
    CHECK(run.code == 0);
    return parse_json(run.out, "out");
  };
  const Json first = graded("1");
  CHECK(first["right"] == 1);
  CHECK(first["asks"][0]["verdict"] == "wrong");
  const Json report = graded(first["asks"][0]["expected"].get<std::string>());
  CHECK(report["right"] == 2);
  CHECK(report["score"] == 1);
  CHECK(report["asks"][1]["verdict"] == "right");
  CHECK(report.contains("flashscope"));
  CHECK(report["asks"][0]["expected"].get<std::string>().find(" B") != std::string::npos);

  CHECK(run_here({"lesson", "export", "own", "--lessons", dir, "--out", folder / "own.html"}).code == 0);
  CHECK(contains(read_file(folder / "own.html"), "One &lt;step&gt;"));
  write_file(folder / "wide.json", std::string("\xFF\xFE{\0}\0", 6));
  RunResult result = run_here({"lesson", "run", "own", "--answers", folder / "wide.json", "--lessons", dir});
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

TEST_CASE("lesson: --out does not write over what is read") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "own.md", kFront + kBody);
  write_file(folder / "answers.json", "{\"answers\": {}}");
  const RunResult page = run_here({"lesson", "export", "own", "--lessons", folder / "", "--out", folder / "own.md"});
  CHECK(page.code == 2);
  CHECK(contains(page.err, "name another file"));
  CHECK(read_file(folder / "own.md") == kFront + kBody);
  const RunResult run = run_here({"lesson", "run", "own", "--lessons", folder / "", "--answers",
                                  folder / "answers.json", "--out", folder / "answers.json"});
  CHECK(run.code == 2);
  CHECK(read_file(folder / "answers.json") == "{\"answers\": {}}");
}

TEST_CASE("lesson --gpu and --recording change the text and the answers") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(
      folder / "own.md",
      kFront +
          "```run r\nalgorithm = \"flash_v2\"\nseqlen = 512\nheads = 16\n```\n\n## One\n\nOn {{ r.machine.title }}: "
          "{{ r.recorded.time_us in µs }}\n\n"
          "```ask\nkind = \"number\"\nid = \"sms\"\nquestion = \"?\"\nanswer = \"r.machine.num_sms\"\nreason = "
          "\"{{ r.machine.num_sms }} SMs\"\n```\n\n"
          "```ask\nkind = \"number\"\nid = \"time\"\nquestion = \"?\"\nanswer = \"r.recorded.time_us\"\nunit = "
          "\"µs\"\nreason = \"x\"\n```\n");
  write_file(folder / "a.json", R"({"answers": {"sms": "132", "time": "1"}})");
  const std::string dir = folder / "";
  const auto graded = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"lesson", "run", "own", "--answers", folder / "a.json", "--lessons", dir};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = run_here(arguments);
    CHECK(result.code == 0);
    return parse_json(result.out, "out");
  };
  // The recording's row of this run is not shipped, so one is written: of 123 µs, then of 246.
  const auto recording_of = [&](const std::string& name, double time_us) {
    Recording recording;
    recording.machine = "nvidia-h200";
    recording.gpu = "a GPU";
    recording.date = "2026-01-01";
    RecordingRow row;
    row.algorithm = "flash_v2";
    row.problem.batch = 1;
    row.problem.heads = row.problem.kv_heads = 16;
    row.problem.seqlen_q = row.problem.seqlen_k = 512;
    row.problem.head_dim = 64;
    row.tile = make_schedule("flash_v2", row.problem, {0, 0, 0})->tile();
    row.measured.time_us = kernels::Measured<double>::of(time_us);
    put_row(recording, row);
    save_recording(folder / name, recording);
    return folder / name;
  };
  const std::string one = recording_of("one.json", 123), two = recording_of("two.json", 246);
  const Json first = graded({"--recording", one}), second = graded({"--recording", two});
  CHECK(first["asks"][0]["verdict"] == "right");
  CHECK(first["asks"][1]["expected"] == "123 µs");
  CHECK(second["asks"][1]["expected"] == "246 µs");
  const Json t4 = graded({"--gpu", "nvidia-t4", "--recording", one});
  CHECK(t4["asks"][0]["verdict"] == "wrong");
  CHECK(t4["asks"][0]["reason"] == "40 SMs");
  CHECK(t4["asks"][1]["verdict"] == "unavailable");  // what was never measured there is no one's mistake
  CHECK(t4["counted"] == 1);
  const RunResult page =
      run_here({"lesson", "export", "own", "--lessons", dir, "--gpu", "nvidia-t4", "--recording", one});
  CHECK(page.code == 0);
  CHECK(contains(page.out, "NVIDIA T4"));
  CHECK_FALSE(contains(page.out, "123"));
  CHECK(contains(page.err, "own.md:"));
  CHECK(contains(run_here({"lesson", "export", "own", "--lessons", dir, "--recording", two}).out, "246"));
  // A run that names its GPU keeps it.
  write_file(folder / "own.md",
             kFront + "```run r\nseqlen = 128\ngpu = \"nvidia-t4\"\n```\n\n## One\n\n{{ r.machine.title }}\n\n" +
                 kBody.substr(kBody.find("```ask\nkind = \"order\"")));
  CHECK(contains(run_here({"lesson", "export", "own", "--lessons", dir, "--gpu", "nvidia-h200"}).out, "NVIDIA T4"));
}

TEST_CASE("lesson export goes on where a run does not fit the GPU, and says so") {
  if (!can_read_toml()) return;
  const Folder folder;
  const std::string show = "```show\nruns = [\"r\"]\n", end = "```\n\n";
  write_file(folder / "own.md",
             kFront + "```run r\nalgorithm = \"flash_v3\"\nseqlen = 512\nheads = 1\ncausal = true\n```\n\n## One\n\n" +
                 show + "operation = \"scores\"\n" + end + show + "operation = \"load S\"\n" + end +
                 "The last paragraph.\n");
  const auto page_of = [&](const std::string& gpu) {
    const RunResult result = run_here({"lesson", "export", "own", "--lessons", folder / "", "--gpu", gpu});
    CHECK(result.code == 0);
    CHECK(contains(result.out, "The last paragraph."));
    return result;
  };
  const RunResult h200 = page_of("nvidia-h200");
  CHECK(contains(h200.out, "<svg"));
  CHECK(contains(h200.err, "own.md:21: no operation 'load S'"));
  CHECK(contains(h200.out, "<p><em>own.md:21: no operation"));
  const RunResult t4 = page_of("nvidia-t4");
  CHECK_FALSE(contains(t4.out, "<svg"));
  CHECK(contains(t4.err, "own.md:16: runs: 'r' could not be predicted; its own line says why"));
  CHECK(contains(t4.err, "own.md:7: run r: "));
}

TEST_CASE("lesson export: predicted beside recorded, and only what there is room for on a line") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "own.md",
             kFront +
                 "```run std\nalgorithm = \"three_pass\"\npass = \"backward\"\nseqlen = 512\nheads = 1\n```\n"
                 "```run flash\nlike = \"std\"\nalgorithm = \"flash_v2\"\n```\n\n## One\n\n"
                 "3. third\n\n```show\nruns = [\"std\", \"flash\"]\npanel = \"bytes\"\nmoment = \"done\"\n```\n\n"
                 "4. fourth\n");
  const RunResult page = run_here({"lesson", "export", "own", "--lessons", folder / ""});
  CHECK(page.code == 0);
  CHECK(contains(page.out, "<li value=\"3\">third"));
  CHECK(contains(page.out, "<li value=\"4\">fourth"));
  CHECK(contains(page.out, "the stage is a still"));
  for (const char* cell : {"<td>SM read</td>", "<td>HBM write</td>", "<td>compulsory</td>", "<td>time</td>"})
    CHECK(contains(page.out, cell));
  CHECK(contains(page.out, "<td>unavailable (not in the recording of NVIDIA H200)</td>"));
  CHECK_FALSE(std::regex_search(page.out, std::regex("<td>[-+0-9.,]+ ")));  // a line does not end before a unit
  // No two labels of the stage stand on one spot, and none begins beyond the picture.
  const std::regex label("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"");
  const std::string svg = page.out.substr(page.out.find("aria-label=\"the stage\""));
  std::set<std::pair<std::string, std::string>> places;
  int labels = 0;
  const std::string stage = svg.substr(0, svg.find("</svg>"));
  for (std::sregex_iterator at(stage.begin(), stage.end(), label), last; at != last; ++at, ++labels) {
    CHECK(places.emplace((*at)[1], (*at)[2]).second);
    CHECK(std::stod((*at)[1]) < 640);
  }
  CHECK(labels > 20);
}

TEST_CASE("lesson check of another GPU: every shipped lesson is sound on every shipped machine") {
  if (!can_read_toml()) return;
  for (const std::string& gpu : machine_names()) {
    CAPTURE(gpu);
    const RunResult result = run_here({"lesson", "check", "--json", "--gpu", gpu});
    CHECK(result.code == 0);
    std::size_t differences = 0;
    for (const Json& lesson : parse_json(result.out, "out")) {
      CHECK(lesson["faults"].empty());
      differences += lesson["differences"].size();
      // One reason a question, not one a way to answer it.
      for (const Json& text : lesson["differences"]) CHECK_FALSE(contains(text.get<std::string>(), "unreadable"));
    }
    CHECK((differences == 0) == (gpu == "nvidia-h200"));
    CHECK(result.err.empty() == (gpu == "nvidia-h200"));
  }
}

TEST_CASE("lesson check of another GPU: what is wrong at home too is a fault, what is other there is told") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "own.md", kFront +
                                    "```claims\n1 > 2\n```\n```run r\nseqlen = 128\nheads = 1\n```\n```claims\n"
                                    "r.machine.num_sms > 100\n```\n\n## One\n" +
                                    kBody.substr(kBody.find("```ask\nkind = \"order\"")));
  const RunResult t4 = run_here({"lesson", "check", "--lessons", folder / "", "--gpu", "nvidia-t4", "--json"});
  CHECK(t4.code == 3);
  const Json lesson = parse_json(t4.out, "out")[0];
  REQUIRE(lesson["faults"].size() == 1);
  CHECK(contains(lesson["faults"][0], "own.md:8: the claim '1 > 2' is false"));
  REQUIRE(lesson["differences"].size() == 1);
  CHECK(contains(lesson["differences"][0], "own.md:15: the claim 'r.machine.num_sms > 100' is false"));
}

TEST_CASE("lesson check of named files: one that cannot be read costs the others nothing") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "own.md", kFront + kBody);
  write_file(folder / "large.md", std::string((1 << 20) + 1, 'x'));
  write_file(folder / "sp\x1B[31m\nace.md", "x");
  std::filesystem::create_symlink("nowhere", folder / "dangling.md");
  const RunResult result =
      run_here({"lesson", "check", "dangling", "own", "own.md", "large", "--lessons", folder / "", "--json"});
  CHECK(result.code == 3);
  const Json lessons = parse_json(result.out, "out");
  REQUIRE(lessons.size() == 3);  // own once
  CHECK(lessons[1]["faults"].empty());
  CHECK(contains(result.err, "dangling.md:1: "));
  CHECK(contains(result.err, "large.md:1: "));
  // Nothing of a name or a text moves the terminal's cursor.
  const RunResult all = run_here({"lesson", "check", "--lessons", folder / ""}),
                  list = run_here({"lesson", "list", "--lessons", folder / ""});
  for (const std::string& text : {all.out, all.err, list.out, list.err}) CHECK_FALSE(contains(text, "\x1B"));
  CHECK(contains(all.err, "sp [31m ace.md:1: "));
}

TEST_CASE("lesson: tensors of which every state would not fit are refused before they are computed") {
  if (!can_read_toml()) return;
  const Folder folder;
  std::string rows = "[";
  for (int n = 0; n < 5000; ++n) rows += n ? ",[1]" : "[1]";
  rows += "]";
  write_file(folder / "t.json", "{\"q\": " + rows + ", \"k\": " + rows + ", \"v\": " + rows + "}");
  write_file(folder / "own.md", kFront + "```run t\ntensors = \"t.json\"\n```\n\n## One\n" +
                                    kBody.substr(kBody.find("```ask\nkind = \"order\"")));
  const RunResult result = run_here({"lesson", "check", "--lessons", folder / ""});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "own.md:7: run t: t.json: batch × heads"));
}

TEST_CASE("lesson export: no address that a browser would run") {
  if (!can_read_toml()) return;
  const Folder folder;
  write_file(folder / "own.md", kFront +
                                    "## <img src=x onerror=alert(1)>\n[a](javascript:alert) [b](file:///etc/passwd) "
                                    "[c](https://a.org/\"onclick=\"x) <script>alert(1)</script>\n\n" +
                                    kBody.substr(kBody.find("```ask\nkind = \"order\"")));
  const RunResult page = run_here({"lesson", "export", "own", "--lessons", folder / ""});
  CHECK(page.code == 0);
  for (const char* part : {"javascript:", "file:", "<script", "<img", "\"onclick"})
    CHECK_FALSE(contains(page.out, part));
  CHECK(contains(page.out, "href=\"https://a.org/&quot;onclick=&quot;x\""));
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
      {{"lesson", "list", "--gpu", "nvidia-t4"}, 2},
      {{"lesson", "check", "4", "--gpu", "nvidia-nothing"}, 2},
      {{"lesson", "check", "4", "--gpu", folder / "b.json"}, 3},
      {{"lesson", "check", "4", "--recording", folder / "b.json"}, 3},
      {{"lesson", "check", "--answers", "x"}, 2},
      {{"lesson", "export", "4", "--json"}, 2},
      {{"lesson", "run", "3", "--answers", folder / "a.json", "--json"}, 2},
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
