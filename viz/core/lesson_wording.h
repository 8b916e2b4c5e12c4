// How people write a number, made into what an expression knows. Nothing here knows what was asked.
#pragma once
#include <string>

namespace flashscope::viz {

/// "a factor of √2", "three quarters", "16 of 132 SMs", "e^{-0.5}", "N = 33,000", "+5": without the words around it,
/// and with plain characters: "sqrt(2)", "3*(1/4)", "16/132", "e^(-0.5)", "33,000", "5". A unit stays behind the
/// number, and separators of thousands where they are.
std::string plain_wording(const std::string& typed);

/// Takes separators of thousands out, and turns a decimal comma into a point: "4,456,448" → "4456448", "0,5" → "0.5".
/// One comma or one point before three digits can be read either way: "2,732" → "2732" and "2.732" → "2.732", or where
/// `the_other_way` the reverse.
std::string without_separators(const std::string& text, bool the_other_way = false);

/// "4.4x10^6": an x between numbers multiplies; that of exp( and max( does not, and 0x40 is another notation, not ours.
void multiply_at_x(std::string& number);

/// Whether a text begins with these small letters, whatever its case.
bool starts_with_small(const std::string& text, const char* begin);

}  // namespace flashscope::viz
