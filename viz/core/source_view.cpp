#include "viz/core/source_view.h"

#include <algorithm>
#include <cctype>

#include "sim/schedule/algorithms.h"
#include "viz/io/embedded.h"

namespace flashscope::viz {
namespace {

const std::string kFileSeparator = "// ==== ";  // and the name of the header that follows

bool contains(const std::string& line, const std::string& text) { return line.find(text) != std::string::npos; }

/// How kernels name a tensor's tiles: "at.q(", or a variable of that name.
std::vector<std::string> names_of(Tensor tensor) {
  if (tensor == Tensor::S) return {"at.scores(", "(s)", "(s,"};
  if (tensor == Tensor::P) return {"at.probabilities(", "(weights"};
  std::string name = name_of(tensor);
  if (name.size() == 2) name.insert(1, "_");  // dQ: d_q
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return {"at." + name + "(", "(" + name + ")", "(" + name + ","};
}

/// A kernel may add to two of them: then the line says which.
bool is_about_a_gradient(Op op) { return op == Op::clear_gradient || op == Op::gradient_sum; }

bool reports(const std::string& line, const TileOp& op) {
  if (op.op == Op::wait)
    return contains(line, "wait_for_copies<") || (contains(line, "_full(") && contains(line, ").wait("));
  if (op.op != Op::load && op.op != Op::store)
    return contains(line, "log.compute(Op::" + std::string(name_of(op.op)) + ",") &&
           (!is_about_a_gradient(op.op) || contains(line, "Tensor::" + std::string(name_of(op.tensor)) + ")"));
  const std::string verb = op.op == Op::load ? "load" : "store";
  const bool starts = op.op == Op::load && contains(line, "start_");  // loads that do not wait
  if (!starts && !contains(line, "log." + verb + "(") && !(contains(line, verb + "_") && contains(line, "log)")))
    return false;
  const auto names = names_of(op.tensor);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return contains(line, name); });
}

/// Of a load or store that is written once for several tensors.
bool reports_of_any(const std::string& line, const TileOp& op) {
  if (op.op == Op::load) return contains(line, "log.load(");
  return op.op == Op::store ? contains(line, "log.store(") : reports(line, op);
}

/// "// 3. S = …" in any indentation.
bool begins_step(const std::string& line) {
  const std::size_t at = line.find_first_not_of(' ');
  if (at == std::string::npos || line.compare(at, 3, "// ") != 0) return false;
  std::size_t digit = at + 3;
  while (digit < line.size() && std::isdigit(static_cast<unsigned char>(line[digit]))) ++digit;
  return digit > at + 3 && digit < line.size() && line[digit] == '.';
}

/// Of "three_pass_scores" in the file of three_pass: the line of its __global__, or -1. Its name may stand a line
/// below.
int kernel_line(const SourceFile& file, const std::string& kernel) {
  const auto size = static_cast<int>(file.lines.size());
  for (int n = 0; n < size; ++n) {
    if (!contains(file.lines[static_cast<std::size_t>(n)], "__global__")) continue;
    for (int k = n; k < std::min(size, n + 3); ++k)
      if (contains(file.lines[static_cast<std::size_t>(k)], kernel + "(")) return n;
  }
  return -1;
}

/// False when there is no such file.
bool append_source(const std::string& name, SourceFile& file) {
  for (const EmbeddedFile& embedded : embedded_kernel_sources()) {
    if (embedded.name != name) continue;
    std::size_t at = 0;
    while (at < embedded.content.size()) {
      const std::size_t end = std::min(embedded.content.find('\n', at), embedded.content.size());
      file.lines.emplace_back(embedded.content.substr(at, end - at));
      at = end + 1;
    }
    return true;
  }
  return false;
}

}  // namespace

SourceFile source_of(const std::string& algorithm, Pass pass) {
  SourceFile file;
  std::string rung;
  for (const Algorithm& a : algorithms(pass))
    if (a.name == algorithm) rung = a.rung;
  const std::string name = rung + "_" + algorithm + (pass == Pass::backward ? "_backward.cu" : ".cu");
  if (!append_source(name, file)) return file;
  file.name = name;
  // A kernel that two rungs share, or that is built in many ways, stands in a header: below the rung that includes it.
  for (const std::string shared :
       {"row_softmax.cuh", "07_flash_v3.cuh", "07_flash_v3_backward.cuh", "08_flash_v3_fp8_quantize.cuh",
        "08_flash_v3_fp8.cuh"})
    if (std::any_of(file.lines.begin(), file.lines.end(),
                    [&](const std::string& line) { return contains(line, "#include") && contains(line, shared); })) {
      file.lines.insert(file.lines.end(), {"", kFileSeparator + shared + " " + std::string(80, '-'), ""});
      append_source(shared, file);
    }
  return file;
}

SourcePlace source_place(const SourceFile& file, const std::string& kernel, const TileOp& op) {
  SourcePlace place;
  const auto size = static_cast<int>(file.lines.size());
  const auto line = [&](int n) -> const std::string& { return file.lines[static_cast<std::size_t>(n)]; };
  place.kernel_first = std::max(0, kernel_line(file, kernel));
  place.kernel_last = place.kernel_first;
  while (place.kernel_last < size && line(place.kernel_last) != "}") ++place.kernel_last;  // of the function
  place.kernel_last = std::min(size, place.kernel_last + 1);
  for (int n = place.kernel_first; n < place.kernel_last; ++n)
    if (reports(line(n), op)) place.lit.push_back(n);
  if (place.lit.empty())  // in what it calls, which then stands below it
    for (int n = place.kernel_last; n < size; ++n)
      if (reports(line(n), op)) place.lit.push_back(n), place.kernel_last = size;
  if (place.lit.empty())  // in a function that several tensors share; it may stand above, but not in another file
    for (int n = place.kernel_first; n >= 0 && !contains(line(n), kFileSeparator); --n)
      if (reports_of_any(line(n), op)) place.lit.insert(place.lit.begin(), n);
  if (place.lit.empty())
    for (int n = place.kernel_last; n < size && !contains(line(n), kFileSeparator); ++n)
      if (reports_of_any(line(n), op)) place.lit.push_back(n), place.kernel_last = size;
  if (place.lit.empty()) return place;
  place.step_first = place.lit.front();
  while (place.step_first > place.kernel_first && !begins_step(line(place.step_first))) --place.step_first;
  place.step_last = place.lit.front() + 1;
  while (place.step_last < place.kernel_last && !begins_step(line(place.step_last))) ++place.step_last;
  if (!begins_step(line(place.step_first))) place.step_first = place.step_last = 0;  // a kernel without numbered steps
  return place;
}

SourcePlace barrier_after(const SourceFile& file, SourcePlace before) {
  const int from = before.lit.empty() ? before.kernel_first : before.lit.back();
  before.lit.clear();
  for (int n = from; n < before.kernel_last && before.lit.empty(); ++n)
    if (contains(file.lines[static_cast<std::size_t>(n)], "__syncthreads(")) before.lit.push_back(n);
  return before;
}

}  // namespace flashscope::viz
