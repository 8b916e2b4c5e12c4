// Cases P05, S04, S05: what the options accept, and how they refuse.
#include <doctest/doctest.h>

#include "tests/cli/support.h"

namespace flashscope {
namespace {

TEST_CASE("P05: a number that is none is refused by option name and range") {
  for (const char* text : {"abc", "", " 64 ", "12abc", "1e3", "0x40", "-1", "99999999999999999999", "64.0", "6\u0664",
                           "+64", "-", "--", "16777217"}) {
    CAPTURE(text);
    const RunResult result = run_here({"simulate", "--seqlen", text});
    CHECK(result.code == 2);
    CHECK(is_one_line_error(result));
    CHECK(contains(result.err, "--seqlen"));
    CHECK(contains(result.err, "0 … 16777216"));
  }
}

TEST_CASE("P05: the same on every whole-number option of every command that has it") {
  const std::pair<const char*, const char*> options[] = {
      {"--batch", "0 … 1048576"},     {"--heads", "1 … 1048576"},     {"--kv-heads", "1 … 1048576"},
      {"--seqlen-q", "0 … 16777216"}, {"--seqlen-k", "0 … 16777216"}, {"--head-dim", "1 … 4096"},
      {"--br", "1 … 1024"},           {"--bc", "1 … 1024"},           {"--stages", "1 … 8"}};
  for (const char* command : {"simulate", "compare", "measure"})
    for (const auto& [option, range] : options)
      for (const char* text : {"abc", "", "12abc", "1e3", "99999999999999999999"}) {
        CAPTURE(command);
        CAPTURE(option);
        const RunResult result = run_here({command, option, text});
        CHECK(result.code == 2);
        CHECK(contains(result.err, option));
        CHECK(contains(result.err, range));
      }
}

TEST_CASE("P05: a missing value, an option given twice, an unknown option") {
  RunResult result = run_here({"simulate", "--seqlen"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "--seqlen: the value is missing; it takes 0 … 16777216"));

  result = run_here({"simulate", "--seqlen="});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "--seqlen"));

  result = run_here({"simulate", "--seqlen=", "64"});
  CHECK(result.code == 2);

  result = run_here({"simulate", "--seqlen", "64", "--seqlen", "64"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "--seqlen: given twice"));

  result = run_here({"simulate", "--causal", "--causal"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "--causal: given twice"));

  result = run_here({"simulate", "--seqlen", "--heads", "2"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "--seqlen"));

  // Options that the product does not have are not taken silently.
  for (const char* option : {"--seqln", "--ctas-per-gpu", "-x"}) {
    CAPTURE(option);
    result = run_here({"simulate", option});
    CHECK(result.code == 2);
    CHECK(is_one_line_error(result));
    CHECK(contains(result.err, std::string(option) + ": unknown option"));
  }
  result = run_here({"simulate", "64"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "'64'"));
  result = run_here({"render"});  // not shipped yet
  CHECK(result.code == 2);
  CHECK(contains(result.err, "'render' is not one of the commands compare, simulate"));
}

TEST_CASE("names are refused with the list of what there is") {
  RunResult result = run_here({"simulate", "--algorithm", "flash_v9"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "flash_v2"));
  result = run_here({"simulate", "--dtype", "int8"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "fp32, fp16, bf16, fp8"));
  CHECK(run_here({"simulate", "--dtype", "fp64"}).code == 2);
  CHECK(run_here({"measure", "--dtype", "fp8"}).code == 2);  // no kernel of ours takes it yet
  result = run_here({"simulate", "--gpu", "nvidia-h2000"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "nvidia-h200"));
  CHECK(run_here({"simulate", "--gpu", "/no/such/machine.json"}).code == 3);
  CHECK(run_here({"simulate", "--start", "lukewarm"}).code == 2);
}

TEST_CASE("S04: head counts that do not fit name both numbers") {
  const std::pair<const char*, const char*> pairs[] = {{"5", "2"}, {"4", "0"}, {"0", "0"}, {"2", "4"}, {"4", "-2"}};
  for (const auto& [heads, kv_heads] : pairs) {
    CAPTURE(heads);
    CAPTURE(kv_heads);
    for (const char* command : {"simulate", "compare", "measure"}) {
      const RunResult result = run_here({command, "--heads", heads, "--kv-heads", kv_heads});
      CHECK(result.code == 2);
      CHECK(is_one_line_error(result));
      CHECK(contains(result.err, std::string("--heads ") + heads + " and --kv-heads " + kv_heads));
    }
  }
  CHECK(run_here({"simulate", "--heads", "4", "--kv-heads", "2", "--seqlen", "64"}).code == 0);
  CHECK(run_here({"simulate", "--heads", "0"}).code == 2);
}

TEST_CASE("S05: empty problems succeed with nothing to do, and zero where it means nothing is refused") {
  for (const char* algorithm : {"three_pass_naive", "three_pass", "flash_v1", "flash_v2"})
    for (const char* option : {"--batch", "--seqlen", "--seqlen-q", "--seqlen-k"}) {
      CAPTURE(algorithm);
      CAPTURE(option);
      const RunResult text = run_here({"simulate", "--algorithm", algorithm, option, "0"});
      CHECK(text.code == 0);
      CHECK_FALSE(contains(text.out, "nan"));
      CHECK_FALSE(contains(text.out, "inf"));
      CHECK(run_here({"simulate", "--json", "--algorithm", algorithm, option, "0"}).code == 0);
    }
  for (const char* option : {"--batch", "--seqlen", "--seqlen-q", "--seqlen-k"}) {
    const RunResult result = run_here({"compare", option, "0"});
    CHECK(result.code == 0);
    CHECK_FALSE(contains(result.out, "nan"));
  }
  CHECK(run_here({"simulate", "--head-dim", "0"}).code == 2);
}

TEST_CASE("options that contradict each other are refused") {
  CHECK(run_here({"simulate", "--seqlen", "64", "--seqlen-q", "1"}).code == 2);
  CHECK(run_here({"simulate", "--causal", "--window", "3,5"}).code == 2);
  CHECK(run_here({"simulate", "--json", "--csv"}).code == 2);
  CHECK(run_here({"simulate", "--ctas", "0,3"}).code == 2);
  for (const char* window : {"3", "3,", ",3", "3,4,5", "a,b", "-2,0", "3 4"}) {
    CAPTURE(window);
    const RunResult result = run_here({"simulate", "--window", window});
    CHECK(result.code == 2);
    CHECK(contains(result.err, "--window"));
  }
  CHECK(run_here({"simulate", "--seqlen", "64", "--window", "-1,0"}).code == 0);
  CHECK(run_here({"compare", "flash_v2"}).code == 2);
  CHECK(run_here({"compare", "flash_v2:seqlen=abc", "three_pass"}).code == 2);
  CHECK(run_here({"compare", "flash_v2", "three_pass", "flash_v1"}).code == 2);
}

TEST_CASE("a problem too large to count is a matter of resources, and a tile too large for the SM is unsupported") {
  const RunResult large = run_here({"simulate", "--batch", "1048576", "--seqlen", "16777216", "--head-dim", "4096"});
  CHECK(large.code == 6);
  CHECK(is_one_line_error(large));
  const RunResult tile = run_here({"simulate", "--br", "1024", "--bc", "1024", "--seqlen", "2048"});
  CHECK(tile.code == 5);
  CHECK(is_one_line_error(tile));
}

TEST_CASE("every command has help with an example, and help names only what is there") {
  const RunResult top = run_here({"--help"});
  CHECK(top.code == 0);
  for (const Command& command : commands()) {
    CHECK(contains(top.out, command.name));
    const RunResult help = run_here({command.name, "--help"});
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    CHECK(contains(help.out, std::string("  flashscope ") + command.name));
  }
  CHECK_FALSE(contains(top.out, "render"));
  CHECK_FALSE(contains(run_here({"simulate", "--help"}).out, "render"));
}

TEST_CASE("bench refuses a number of repeats that is none") {
  const RunResult result = run_here({"bench", "--repeats", "0"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "--repeats"));
}

}  // namespace
}  // namespace flashscope
