// The small language of {{ }}, answers and claims: names of runs and their fields, numbers, + - × / ^, comparisons,
// and a few functions. Nothing in it can read a file, loop or change anything.
//
//   comparison := sum [ (< <= > >= = !=) sum ]
//   sum        := product { (+ | -) product }
//   product    := signed { (* × · | / ÷) signed }
//   signed     := [-] power
//   power      := atom [ ^ signed ]
//   atom       := NUMBER | NAME { . FIELD | [INTEGER] } | FUNCTION ( comparison { , comparison } ) | ( comparison )
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "viz/core/lesson_number.h"
#include "viz/io/json_fwd.h"

namespace flashscope::viz {

/// What an expression gives: a number, a text from a document ("nvidia-h200"), or a truth.
struct Value {
  enum class Kind : std::uint8_t { number, text, truth };
  Kind kind = Kind::number;
  Number number;
  std::string text;
  bool truth = false;
};

/// The document behind a name: throws Error(input) when there is none of that name.
using Documents = std::function<const Json&(const std::string& name)>;

/// Throws Error(input) with what is wrong and where in the text. An array of objects with a "name" is also indexed by
/// that name: kernels.three_pass_softmax.time_us.
Value evaluate(std::string_view expression, const Documents& documents);
/// The same, and refuses what is no number.
Number evaluate_number(std::string_view expression, const Documents& documents);
bool evaluate_truth(std::string_view expression, const Documents& documents);

}  // namespace flashscope::viz
