#include "viz/cli/problem_list.h"

#include "sim/error.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

/// The text of a JSON value as it would stand on the command line.
std::string option_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {  // window: [left, right]
    std::string text;
    for (const Json& part : value) text += (text.empty() ? "" : ",") + part.dump();
    return text;
  }
  return value.dump();
}

void set_member(ListedProblem& problem, std::string name, const Json& value) {
  for (char& c : name) c = c == '_' ? '-' : c;
  if (name == "algorithms" && value.is_array())
    for (const Json& algorithm : value) problem.algorithms.push_back(option_text(algorithm));
  else if (name == "algorithms" || name == "algorithm")
    problem.algorithms.push_back(option_text(value));
  else
    set_problem_option(problem.options, name, option_text(value));
}

}  // namespace

std::vector<ListedProblem> read_problem_list(const std::string& path, const ProblemOptions& shared) {
  const Json list = parse_json(read_text_file(path), path);
  if (!list.is_array()) throw Error(ErrorKind::input, path + ": must be a list of problems");
  std::vector<ListedProblem> problems;
  for (std::size_t k = 0; k < list.size(); ++k) {
    ListedProblem problem = {shared, {}, path + ": problem " + std::to_string(k + 1) + ": "};
    if (!list[k].is_object()) throw Error(ErrorKind::input, problem.place + "must be an object of problem options");
    try {
      for (const auto& [name, value] : list[k].items()) set_member(problem, name, value);
    } catch (const Error& error) {
      throw Error(ErrorKind::input, problem.place + error.what());
    }
    problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace flashscope
