// flashscope simulate: the contract of its JSON, the counts the literature gives, sweeps and traces.
#include <doctest/doctest.h>

#include "tests/cli/support.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

Json simulate_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"simulate", "--json"});
  const RunResult result = run_here(arguments);
  REQUIRE(result.code == 0);
  REQUIRE(result.err.empty());
  return Json::parse(result.out);
}

const std::vector<std::string> kPaper = {"--heads", "1",    "--seqlen", "1024", "--head-dim", "64",
                                         "--dtype", "fp16", "--br",     "64",   "--bc",       "64"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("simulate --json of the reference problem, key by key and in order") {
  Json got = simulate_json(with(kPaper, {"--algorithm", "flash_v2"}));
  CHECK(got["time_us"].get<double>() > 0);
  CHECK(got["tile"]["ctas_per_sm"].get<int>() >= 1);
  const double time = got["time_us"].get<double>();
  CHECK(got["kernels"][0]["time_us"].get<double>() == doctest::Approx(time));
  for (Json* object : {&got, &got["kernels"][0]}) {
    if (object->contains("time_us")) (*object)["time_us"] = 0;
    if (object->contains("ctas_per_sm")) (*object)["ctas_per_sm"] = 0;
  }
  got["tile"]["ctas_per_sm"] = 0;
  const Json kernel = got["kernels"][0];
  got.erase("kernels");
  const Json expected = Json::parse(R"({
    "algorithm":"flash_v2","pass":"forward",
    "problem":{"batch":1,"heads":1,"kv_heads":1,"seqlen_q":1024,"seqlen_k":1024,"head_dim":64,"dtype":"fp16",
               "causal":false,"window":[-1,-1],"block_mask":null,"scale":0.125},
    "tile":{"br":64,"bc":64,"stages":1,"ctas_per_sm":0},"gpu":"nvidia-h200","start":"cold",
    "flops":268435456,"flops_executed":268435456,"exps":1064960,"peak_memory_bytes":528384,"time_us":0,
    "sm_read_bytes":4325376,"sm_write_bytes":135168,"sm_sector_read_bytes":4325376,"sm_sector_write_bytes":135168,
    "hbm_read_bytes":393216,"hbm_write_bytes":0,"hbm_dirty_bytes":135168,
    "paper_bytes":4456448,"compulsory_bytes":524288,
    "tensors":{
      "Q":{"sm_read_bytes":131072,"sm_write_bytes":0,"hbm_read_bytes":131072,"hbm_write_bytes":0},
      "K":{"sm_read_bytes":2097152,"sm_write_bytes":0,"hbm_read_bytes":131072,"hbm_write_bytes":0},
      "V":{"sm_read_bytes":2097152,"sm_write_bytes":0,"hbm_read_bytes":131072,"hbm_write_bytes":0},
      "O":{"sm_read_bytes":0,"sm_write_bytes":131072,"hbm_read_bytes":0,"hbm_write_bytes":0},
      "LSE":{"sm_read_bytes":0,"sm_write_bytes":4096,"hbm_read_bytes":0,"hbm_write_bytes":0}}})");
  CHECK(got.dump(1) == expected.dump(1));
  CHECK(kernel["name"] == "flash_v2");
  CHECK(kernel["grid"] == Json::parse("[16,1,1]"));
  for (const char* key : {"flops", "flops_executed", "exps", "sm_read_bytes", "sm_write_bytes", "sm_sector_read_bytes",
                          "sm_sector_write_bytes", "hbm_read_bytes", "hbm_write_bytes", "hbm_dirty_bytes", "tensors"})
    CHECK(kernel[key] == expected[key]);
}

TEST_CASE("the paper's count") {
  const auto paper = [](const std::vector<std::string>& more) {
    return simulate_json(with(kPaper, more))["paper_bytes"].get<std::int64_t>();
  };
  CHECK(paper({"--algorithm", "three_pass"}) == 8'912'896);
  CHECK(paper({"--algorithm", "flash_v2"}) == 4'456'448);
  CHECK(paper({"--algorithm", "flash_v2", "--causal"}) == 2'490'368);
  CHECK(paper({"--algorithm", "flash_v1"}) == 6'815'744);
  CHECK(simulate_json({"--heads", "1", "--seqlen", "33", "--dtype", "fp16", "--br", "32", "--bc",
                       "32"})["paper_bytes"] == 25'344);
}

TEST_CASE("C06: FLOPs are those of kept pairs, with the triangle counted exactly") {
  CHECK(simulate_json(kPaper)["flops"] == 268'435'456);
  CHECK(simulate_json(with(kPaper, {"--causal"}))["flops"] == 134'348'800);
  const Json decode = simulate_json({"--heads", "32", "--kv-heads", "8", "--seqlen-q", "1", "--seqlen-k", "4096",
                                     "--head-dim", "128", "--dtype", "fp16"});
  CHECK(decode["flops"] == 67'108'864);
  CHECK(decode["hbm_read_bytes"].get<std::int64_t>() == 16'777'216 + 32 * 128 * 2);  // 8 KV heads, not 32
  CHECK(contains(run_here(with({"simulate"}, kPaper)).out, "TFLOP/s of kept pairs"));
}

TEST_CASE("kernels add up to the run") {
  const Json run = simulate_json({"--algorithm", "three_pass", "--seqlen", "512", "--heads", "4"});
  for (const char* key : {"flops", "exps", "sm_read_bytes", "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes"}) {
    std::int64_t sum = 0;
    for (const Json& kernel : run["kernels"]) sum += kernel[key].get<std::int64_t>();
    CHECK(sum == run[key].get<std::int64_t>());
  }
}

TEST_CASE("the defaults are the contract's") {
  const Json run = simulate_json({});
  CHECK(run["problem"]["batch"] == 1);
  CHECK(run["problem"]["heads"] == 16);
  CHECK(run["problem"]["kv_heads"] == 16);
  CHECK(run["problem"]["seqlen_q"] == 4096);
  CHECK(run["problem"]["seqlen_k"] == 4096);
  CHECK(run["problem"]["head_dim"] == 64);
  CHECK(run["problem"]["dtype"] == "bf16");
  CHECK(run["gpu"] == "nvidia-h200");
  CHECK(run["start"] == "cold");
}

TEST_CASE("equal input gives equal bytes, in this process and in the binary") {
  for (const std::string format : {"", "--json", "--csv"}) {
    const std::string tail = "simulate --heads 2 --seqlen 512 --causal " + format;
    const RunResult first = run_binary(tail), second = run_binary(tail);
    CHECK(first.code == 0);
    CHECK(first.out == second.out);
    std::vector<std::string> arguments = {"simulate", "--heads", "2", "--seqlen", "512", "--causal"};
    if (!format.empty()) arguments.push_back(format);
    CHECK(run_here(arguments).out == first.out);
  }
}

TEST_CASE("a sweep is one line a value, and each line is what the value alone gives") {
  const RunResult sweep = run_here({"simulate", "--heads", "1", "--sweep", "seqlen=64:512:x2"});
  REQUIRE(sweep.code == 0);
  CHECK(std::count(sweep.out.begin(), sweep.out.end(), '\n') == 5);
  const Json points = Json::parse(run_here({"simulate", "--json", "--heads", "1", "--sweep", "seqlen=64:512:x2"}).out);
  REQUIRE(points.size() == 4);
  CHECK(points[3] == simulate_json({"--heads", "1", "--seqlen", "512"}));
  CHECK(Json::parse(run_here({"simulate", "--json", "--seqlen", "64", "--sweep", "bc=16,32"}).out).size() == 2);
  CHECK(Json::parse(run_here({"simulate", "--json", "--sweep", "seqlen=64:192:+64"}).out).size() == 3);
  for (const char* bad :
       {"", "seqlen", "seqlen=", "seqlen=64:512", "seqlen=64:512:x1", "seqlen=0:64:x2", "seqlen=64:32:x2",
        "seqlen=0:16777216:+1", "colour=1:2:+1", "seqlen=a:b:x2", "seqlen=64:512:2"}) {
    CAPTURE(bad);
    const RunResult result = run_here({"simulate", "--sweep", bad});
    CHECK(result.code == 2);
    CHECK(contains(result.err, "--sweep"));
  }
}

TEST_CASE("a trace is valid JSON, its spans can be chosen, and too many are refused before anything is written") {
  const Folder folder;
  const std::string path = folder / "trace.json";
  REQUIRE(run_here({"simulate", "--heads", "1", "--seqlen", "256", "--trace", path}).code == 0);
  const Json all = Json::parse(read_file(path));
  REQUIRE(run_here({"simulate", "--heads", "1", "--seqlen", "256", "--trace", path, "--ctas", "0,0"}).code == 0);
  const Json one = Json::parse(read_file(path));
  CHECK(one["traceEvents"].size() < all["traceEvents"].size());
  const std::string before = read_file(path);
  const RunResult refused = run_here({"simulate", "--seqlen", "65536", "--trace", path});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "--ctas"));
  CHECK(contains(refused.err, "--window-us"));
  CHECK(read_file(path) == before);
  REQUIRE(run_here({"simulate", "--seqlen", "0", "--trace", path}).code == 0);
  CHECK(Json::parse(read_file(path)).contains("traceEvents"));
}

TEST_CASE("the backward pass: its count, its kernels, and the training step with the forward pass") {
  const std::vector<std::string> shape = {"--batch", "1",  "--heads", "1",    "--seqlen", "1024", "--head-dim", "64",
                                          "--dtype", "fp16", "--br",  "64", "--bc", "64", "--pass", "backward"};
  const Json flash = simulate_json(shape);
  CHECK(flash["pass"] == "backward");
  CHECK(flash["algorithm"] == "flash_v2");
  CHECK(flash["flops"] == 671'088'640);
  CHECK(flash["flops_executed"] == 7 * 134'217'728);
  CHECK(flash["paper_bytes"] == 11'141'120);
  CHECK(flash["kernels"].size() == 3);
  CHECK(flash["tensors"].contains("dK"));
  for (const char* key : {"flops", "sm_read_bytes", "sm_write_bytes", "hbm_read_bytes"}) {
    std::int64_t sum = 0;
    for (const Json& kernel : flash["kernels"]) sum += kernel[key].get<std::int64_t>();
    CHECK(sum == flash[key].get<std::int64_t>());
  }
  CHECK(flash["training_step"]["flops"] == 671'088'640 + 268'435'456);
  CHECK(flash["training_step"]["time_us"].get<double>() > flash["time_us"].get<double>());
  const Json stored = simulate_json(with(shape, {"--algorithm", "three_pass"}));
  CHECK(stored["paper_bytes"] == 15'728'640);
  CHECK(stored["peak_memory_bytes"].get<std::int64_t>() > 6'000'000);
  CHECK(flash["peak_memory_bytes"].get<std::int64_t>() < 1'100'000);

  // O(N²) against O(N): what fits on an H200.
  const std::string text = run_here({"simulate", "--pass", "backward", "--algorithm", "three_pass"}).out;
  CHECK(contains(text, "largest seqlen                   38,243"));
  CHECK(contains(text, "training step: forward + backward"));
  CHECK(contains(run_here({"simulate", "--pass", "backward"}).out, "storing P takes 4"));
}

TEST_CASE("a backward pass that does not exist is named as that") {
  const RunResult naive = run_here({"simulate", "--pass", "backward", "--algorithm", "three_pass_naive"});
  CHECK(naive.code == 2);
  CHECK(contains(naive.err, "three_pass, flash_v1, flash_v2"));
  const RunResult pass = run_here({"simulate", "--pass", "sideways"});
  CHECK(pass.code == 2);
  CHECK(contains(pass.err, "--pass"));
}

TEST_CASE("a block mask: a preset, or a file, and bytes that follow its density") {
  const std::vector<std::string> shape = {"--heads", "1", "--seqlen", "512", "--dtype", "fp16", "--br", "64", "--bc", "64"};
  const Json all = simulate_json(shape), half = simulate_json(with(shape, {"--block-mask", "random:0.5:3"}));
  CHECK(half["tensors"]["K"]["sm_read_bytes"].get<std::int64_t>() * 2 == all["tensors"]["K"]["sm_read_bytes"].get<std::int64_t>());
  CHECK(half["flops"].get<std::int64_t>() * 2 == all["flops"].get<std::int64_t>());
  CHECK(half["problem"]["block_mask"]["name"] == "random:0.5:3");
  CHECK(half["problem"]["block_mask"]["kept"] == 32);
  CHECK(half["problem"]["block_mask"]["block"] == Json::parse("[64, 64]"));
  const Folder folder;
  write_file(folder / "mask.json", R"({"block": [256, 128], "rows": ["1000", "0011"]})");
  const Json file = simulate_json(with(shape, {"--block-mask", folder / "mask.json"}));
  CHECK(file["flops"].get<std::int64_t>() * 8 == all["flops"].get<std::int64_t>() * 3);
  CHECK(run_here({"compare", "flash_v2:seqlen=512:block-mask=local:0.25:1", "flash_v2:seqlen=512"}).code == 0);

  const auto refused = [&](const std::string& mask, int code, const std::string& part) {
    const RunResult result = run_here(with(with({"simulate"}, shape), {"--block-mask", mask}));
    CAPTURE(mask);
    CHECK(result.code == code);
    CHECK(contains(result.err, part));
  };
  for (const char* bad : {"local", "local:2:1", "local:0:1", "local:x:1", "local:0.5", "local:0.5:-1", "local:0.5:1:0",
                          "local:0.5:1:64:2", ""})
    refused(bad, 2, "--block-mask");
  refused(folder / "none.json", 3, "none.json");
  write_file(folder / "bad.json", R"({"block": [256, 128], "rows": ["1000", "001"]})");
  refused(folder / "bad.json", 3, "rows[1]: 3 blocks");
  write_file(folder / "bad.json", R"({"block": [256, 128], "rows": ["1000", "00x1"]})");
  refused(folder / "bad.json", 3, "rows[1]: character 3");
  write_file(folder / "bad.json", R"({"block": [64, 64], "rows": ["1"]})");
  refused(folder / "bad.json", 2, "these lengths need 8 × 8");
}

TEST_CASE("packed sequences: offsets say how many rows there are, and only pairs within one count") {
  const Json run = simulate_json({"--heads", "1", "--cu-seqlens", "0,100,100,300"});
  CHECK(run["problem"]["seqlen_q"] == 300);
  CHECK(run["problem"]["cu_seqlens_k"] == Json::parse("[0, 100, 100, 300]"));
  CHECK(run["flops"] == 4 * 64 * (100 * 100 + 200 * 200));
  const Json decode = simulate_json({"--heads", "1", "--cu-seqlens", "0,1,2", "--cu-seqlens-k", "0,50,80"});
  CHECK(decode["flops"] == 4 * 64 * 80);
  for (const char* bad : {"0", "0,5,3", "1,5", "0,x", ""}) {
    CAPTURE(bad);
    const RunResult result = run_here({"simulate", "--cu-seqlens", bad});
    CHECK(result.code == 2);
    CHECK(contains(result.err, "--cu-seqlens"));
  }
}

TEST_CASE("C06: decode reads the cache of 8 KV heads once, whatever the number of query heads and splits") {
  std::vector<std::string> decode = {"--heads", "32", "--kv-heads", "8",   "--seqlen-q", "1", "--seqlen-k",
                                     "4096",    "--head-dim", "128", "--dtype", "fp16", "--algorithm", "split_kv"};
  for (const char* splits : {"0", "1", "7", "64", "65"}) {
    const Json got = simulate_json(with(decode, {"--splits", splits}));
    CHECK(got["flops"] == 67'108'864);
    CHECK(got["tensors"]["K"]["sm_read_bytes"] == 8'388'608);
    CHECK(got["tensors"]["V"]["sm_read_bytes"] == 8'388'608);
    CHECK(got["tensors"]["K"]["hbm_read_bytes"] == 8'388'608);
  }
}

TEST_CASE("decode: one CTA a KV head leaves the GPU idle, splits fill it; automatic by what runs at once") {
  const std::vector<std::string> decode = {"--heads", "32", "--kv-heads", "8",  "--seqlen-q", "1", "--seqlen-k",
                                           "65536",   "--head-dim", "128", "--dtype", "fp16"};
  const Json alone = simulate_json(with(decode, {"--algorithm", "split_kv", "--splits", "1"}));
  const Json split = simulate_json(with(decode, {"--algorithm", "split_kv"}));
  CHECK(alone["kernels"][0]["grid"][0] == 8);
  const int splits = split["tile"]["splits"].get<int>(), slots = 132 * split["kernels"][0]["ctas_per_sm"].get<int>();
  CHECK(split["kernels"][0]["grid"][0] == 8 * splits);
  CHECK(8 * splits <= slots);
  CHECK(8 * (splits + 1) > slots);
  CHECK(split["time_us"].get<double>() * 4 < alone["time_us"].get<double>());
  CHECK(split["tensors"]["O_split"]["sm_write_bytes"] == 32 * splits * 128 * 4);
  CHECK(split["tensors"]["O_split"]["sm_read_bytes"] == 32 * splits * 128 * 4);
  // Two CTAs of one KV head are two splits; other algorithms know none.
  CHECK_FALSE(simulate_json({"--seqlen", "256", "--splits", "1"})["tile"].contains("splits"));
  CHECK(contains(run_here({"simulate", "--splits", "65537"}).err, "--splits"));
}

TEST_CASE("decode from a cache in pages: the block table is read beside K and V, which cost what they cost in one piece") {
  const std::vector<std::string> decode = {"--algorithm", "split_kv", "--heads", "32", "--kv-heads", "8", "--seqlen-q", "1",
                                           "--seqlen-k", "8192", "--head-dim", "128", "--splits", "16"};
  const Json whole = simulate_json(decode), paged = simulate_json(with(decode, {"--page-size", "16"}));
  CHECK_FALSE(whole["tile"].contains("page_size"));
  CHECK(paged["tile"]["page_size"] == 16);
  CHECK(paged["tensors"]["K"] == whole["tensors"]["K"]);
  CHECK(paged["tensors"]["block_table"]["sm_read_bytes"] == 8 * 8192 / 16 * 4);  // by each KV head
  CHECK(paged["tensors"]["block_table"]["hbm_read_bytes"] == 8192 / 16 * 4);     // shared by all of them
  CHECK(paged["sm_read_bytes"].get<std::int64_t>() == whole["sm_read_bytes"].get<std::int64_t>() + 8 * 8192 / 16 * 4);
  CHECK(paged["time_us"].get<double>() >= whole["time_us"].get<double>());
  CHECK(paged["time_us"].get<double>() <= 1.2 * whole["time_us"].get<double>());
  const RunResult bad = run_here(with({"simulate", "--seqlen", "256", "--algorithm", "split_kv"}, {"--page-size", "24"}));
  CHECK(bad.code == 2);
  CHECK(contains(bad.err, "--page-size: 24 is no power of two in 16 … 65536"));
}

TEST_CASE("a tile option that would change nothing is refused with the algorithms that know it") {
  const auto refused = [](const std::vector<std::string>& more) {
    const RunResult result = run_here(with({"simulate", "--seqlen", "256"}, more));
    CHECK(result.code == 5);
    CHECK(is_one_line_error(result));
    return result.err;
  };
  CHECK(contains(refused({"--splits", "4"}), "--splits: flash_v2 gives all keys of a row to one CTA; split_kv splits"));
  CHECK(contains(refused({"--page-size", "16"}), "--page-size: flash_v2 takes K and V in one piece; split_kv takes them"));
  CHECK(contains(refused({"--stages", "2"}), "--stages: flash_v2 has no ring of K and V tiles; of the forward pass "
                                             "three_pass_tensor, flash_v3, flash_v3_fp8 have one"));
  CHECK(contains(refused({"--stages", "2", "--pass", "backward"}), "of the backward pass flash_v2_tensor, flash_v3 have one"));
  for (const char* algorithm : {"three_pass_tensor", "flash_v3", "flash_v3_fp8"})
    CHECK(run_here({"simulate", "--seqlen", "256", "--algorithm", algorithm, "--stages", "3"}).code == 0);
  CHECK(run_here({"simulate", "--seqlen", "256", "--stages", "1", "--splits", "0"}).code == 0);
  // Two algorithms share their options: each takes what it knows.
  CHECK(run_here({"compare", "split_kv", "flash_v2", "--seqlen", "256", "--splits", "4"}).code == 0);
  CHECK(run_here({"compare", "split_kv", "flash_v2", "--seqlen", "256", "--page-size", "64"}).code == 0);
}

TEST_CASE("more splits than can be combined: the refusal names --splits and how many can, and no side of a tile") {
  const std::vector<std::string> rows = {"simulate", "--algorithm", "split_kv", "--seqlen", "512", "--heads", "1"};
  const RunResult result = run_here(with(rows, {"--splits", "60000"}));
  CHECK(result.code == 5);
  CHECK(is_one_line_error(result));
  CHECK(contains(result.err, "--splits: to combine 60000 splits of 16 rows"));
  CHECK_FALSE(contains(result.err, "--br"));
  const std::string upto = "enough for up to ";
  const std::size_t at = result.err.find(upto);
  REQUIRE(at != std::string::npos);
  const int most = std::stoi(result.err.substr(at + upto.size()));
  CHECK(run_here(with(rows, {"--splits", std::to_string(most)})).code == 0);
  CHECK(run_here(with(rows, {"--splits", std::to_string(most + 1)})).code == 5);
}

}  // namespace
}  // namespace flashscope
