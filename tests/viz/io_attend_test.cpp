// The user's tensors: what is accepted, and how faults are named.
#include "viz/io/attend_io.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/support/temporary_folder.h"
#include "tests/support/throws_error.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

AttendInput parse(const std::string& text) { return attend_input_from_json(text, "in.json"); }

Thrown refused(const std::string& text) {
  return thrown_by([&] { parse(text); });
}

TEST_CASE("two levels are one batch and one head") {
  const AttendInput input = parse(R"({"q": [[1, 2]], "k": [[3, 4], [5, 6]], "v": [[7, 8], [9, "inf"]], "scale": 0.5,
                                      "comment": {"anything": [1]}, "mask": [[1, 0]], "d_out": null})");
  const AttentionProblem& p = input.problem;
  CHECK(p.batch == 1);
  CHECK(p.heads == 1);
  CHECK(p.kv_heads == 1);
  CHECK(p.seqlen_q == 1);
  CHECK(p.seqlen_k == 2);
  CHECK(p.head_dim == 2);
  CHECK(p.dtype == DType::fp64);
  CHECK(p.softmax_scale == 0.5);
  CHECK(input.inputs.k.at(0, 1, 0) == 5);
  CHECK(input.inputs.v.at(0, 1, 1) == std::numeric_limits<double>::infinity());
  CHECK(input.inputs.keep.heads == 1);
  CHECK(input.inputs.keep.values == std::vector<double>{1, 0});
  CHECK(p.dense_mask);
  CHECK_FALSE(parse(R"({"q": [[1]], "k": [[1]], "v": [[1]], "mask": null})").problem.dense_mask);
}

TEST_CASE("four levels are batch, head, row, column; KV heads may be fewer; a mask may be shared") {
  const std::string qkv = R"("q": [[[[1]], [[2]]], [[[3]], [[4]]]], "k": [[[[5], [6]]], [[[7], [8]]]],
                             "v": [[[[0], [0]]], [[[0], [9]]]])";
  const AttendInput input = parse("{" + qkv + "}");
  CHECK(input.problem.batch == 2);
  CHECK(input.problem.heads == 2);
  CHECK(input.problem.kv_heads == 1);
  CHECK(input.inputs.q.at(3, 0, 0) == 4);
  CHECK(input.inputs.k.at(1, 0, 0) == 7);
  CHECK(input.inputs.keep.values.empty());

  const AttendInput per_batch = parse("{" + qkv + R"(, "mask": [[[[1, 0]]], [[[false, true]]]]})");
  CHECK(per_batch.inputs.keep.heads == 4);
  CHECK(per_batch.inputs.keep.values == std::vector<double>{1, 0, 1, 0, 0, 1, 0, 1});
  CHECK(parse("{" + qkv + R"(, "mask": [[[[1, 0]]]]})").inputs.keep.heads == 1);
  CHECK(refused("{" + qkv + R"(, "mask": [[[[1, 0]], [[1, 0]], [[1, 0]]]]})").says("mask: heads is 3 where q and k need 2 or 1"));
}

TEST_CASE("faults are named with their place") {
  CHECK(refused(R"({"q": [[1, 2], [3]], "k": [[1, 2]], "v": [[1, 2]]})").says("in.json: q[1]: a list of 1 where the first"));
  CHECK(refused(R"({"q": [[1, [2]]], "k": [[1, 2]], "v": [[1, 2]]})").says("q[0][1]: a list where a number"));
  CHECK(refused(R"({"q": [[1, 2], 3], "k": [[1, 2]], "v": [[1, 2]]})").says("q[1]: expected a list"));
  CHECK(refused(R"({"q": [[1, "x"]], "k": [[1, 2]], "v": [[1, 2]]})").says("q[0][1]: expected a number"));
  CHECK(refused(R"({"q": [[1, null]], "k": [[1, 2]], "v": [[1, 2]]})").says("q[0][1]: expected a number"));
  CHECK(refused(R"({"q": [1, 2], "k": [[1, 2]], "v": [[1, 2]]})").says("q: 1 levels; four are needed"));
  CHECK(refused(R"({"q": [[[1, 2]]], "k": [[1, 2]], "v": [[1, 2]]})").says("q: 3 levels"));
  CHECK(refused(R"({"q": 5, "k": [[1, 2]], "v": [[1, 2]]})").says("q: expected nested lists"));
  CHECK(refused(R"({"q": [[1, 2]], "v": [[1, 2]]})").says("\"k\" is missing"));
  CHECK(refused(R"({"q": [[1, 2]], "k": [[1, 2, 3]], "v": [[1, 2]]})").says("k: columns is 3, but 2 in q"));
  CHECK(refused(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2], [3, 4]]})").says("v: rows is 2, but 1 in k"));
  CHECK(refused(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2]], "mask": [[1, 1]]})").says("mask: columns is 2"));
  CHECK(refused(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2]], "mask": [[-1e9]]})").says("a mask holds 1 (keep) and 0"));
  CHECK(refused(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2]], "scale": "nan"})").says("scale"));
  CHECK(refused(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2]], "scale": 0})").says("scale"));
  CHECK(refused("[]").says("expected an object"));
  CHECK(refused("{").kind == ErrorKind::input);
  const Thrown heads = refused(R"({"q": [[[[1]], [[1]], [[1]], [[1]], [[1]]]], "k": [[[[1]], [[1]]]], "v": [[[[1]], [[1]]]]})");
  CHECK(heads.says("5"));
  CHECK(heads.says("2"));
}

TEST_CASE("d_out asks for the backward pass and is like q") {
  const AttendInput input = parse(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2]], "d_out": [[3, 4]]})");
  CHECK(input.problem.pass == Pass::backward);
  CHECK(input.inputs.d_out.values == std::vector<double>{3, 4});
  CHECK(parse(R"({"q": [[1]], "k": [[1]], "v": [[1]], "d_out": null})").problem.pass == Pass::forward);
  CHECK(parse(R"({"q": [], "k": [[1, 2]], "v": [[1, 2]], "d_out": []})").inputs.d_out.cols == 2);
  const Thrown thrown = refused(R"({"q": [[1, 2]], "k": [[1, 2]], "v": [[1, 2]], "d_out": [[3, 4], [5, 6]]})");
  CHECK(thrown.kind == ErrorKind::input);
  CHECK(thrown.says("d_out: rows is 2, but 1 in q"));
}

TEST_CASE("empty lists are sizes of zero, and take what they do not say from the others (case S05)") {
  const AttendInput no_keys = parse(R"({"q": [[1, 2]], "k": [], "v": []})");
  CHECK(no_keys.problem.seqlen_k == 0);
  CHECK(no_keys.problem.head_dim == 2);
  CHECK(no_keys.inputs.k.cols == 2);
  const AttendInput no_rows = parse(R"({"q": [], "k": [[1, 2]], "v": [[1, 2]], "mask": []})");
  CHECK(no_rows.problem.seqlen_q == 0);
  const AttendInput no_keys4 = parse(R"({"q": [[[[1]], [[1]]]], "k": [[[], []]], "v": [[[], []]]})");
  CHECK(no_keys4.problem.heads == 2);
  CHECK(no_keys4.problem.kv_heads == 2);
  CHECK(no_keys4.problem.seqlen_k == 0);
  CHECK(refused(R"({"q": [], "k": [], "v": []})").says("cannot be told from empty lists"));
  CHECK(refused(R"({"q": [[]], "k": [[]], "v": [[]]})").says("--head-dim"));
}

TEST_CASE("the same tensors from .npy files; a declared shape is taken as it is (case S08)") {
  const TemporaryFolder folder;
  const auto put = [&](const char* name, NpyArray array) {
    write_npy(folder.path(name), array, NpyItem::float32);
    return folder.path(name);
  };
  const AttendNpyPaths paths = {put("q.npy", {{1, 2, 1, 1}, {1, 2}}), put("k.npy", {{1, 1, 2, 1}, {3, 4}}),
                                put("v.npy", {{1, 1, 2, 1}, {5, 6}}), put("mask.npy", {{1, 2}, {1, 0}})};
  const AttendInput input = read_attend_npy(paths, 2.0);
  CHECK(input.problem.heads == 2);
  CHECK(input.problem.kv_heads == 1);
  CHECK(input.problem.seqlen_k == 2);
  CHECK(input.problem.softmax_scale == 2.0);
  CHECK(input.inputs.keep.values == std::vector<double>{1, 0});
  const AttendNpyPaths swapped = {paths.q, put("k3.npy", {{1, 3, 2, 1}, {1, 2, 3, 4, 5, 6}}), paths.v, ""};
  const Thrown thrown = thrown_by([&] { read_attend_npy(swapped); });
  CHECK(thrown.kind == ErrorKind::input);
  CHECK(thrown.says("heads is 1, but 3"));
  CHECK(thrown_by([&] { read_attend_npy({put("q3.npy", {{1, 1, 1}, {1}}), paths.k, paths.v, ""}); }).says("3 levels"));
}

TEST_CASE("results as nested lists and arrays") {
  Array o(2, 1, 2), lse(2, 1, 1);
  o.values = {1, 2, 3, 4};
  lse.values = {-std::numeric_limits<double>::infinity(), 0.5};
  CHECK(nested_lists(o, 1, 2).dump() == "[[[[1.0,2.0]],[[3.0,4.0]]]]");
  CHECK(nested_row_lists(lse, 1, 2).dump() == "[[[\"-inf\"],[0.5]]]");
  CHECK(nested_row_lists(lse, 2, 1).dump() == "[[[\"-inf\"]],[[0.5]]]");
  CHECK(npy_array(o, 1, 2).shape == std::vector<std::int64_t>{1, 2, 1, 2});
  CHECK(npy_row_array(lse, 1, 2).shape == std::vector<std::int64_t>{1, 2, 1});
  CHECK(nested_lists(Array(0, 3, 2), 0, 4).dump() == "[]");
  CHECK(thrown_by([&] { nested_lists(o, 2, 2); }).kind == ErrorKind::internal);
}

}  // namespace
}  // namespace flashscope
