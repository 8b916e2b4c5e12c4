// fmt's formatting with the library's own code compiled once, in format.cpp: the distribution has it as headers or as a
// shared library, which `flashscope` must not need, and the headers cost seconds in every file that writes text.
#pragma once
#include <fmt/core.h>

#include <string>

namespace flashscope {

std::string formatted_values(fmt::string_view format, fmt::format_args values);

/// fmt::format: formatted("{} of {:.1f} %", name, share). The format is checked when this is compiled.
template <typename... Values>
std::string formatted(fmt::format_string<Values...> format, Values&&... values) {
  return formatted_values(format, fmt::make_format_args(values...));
}

}  // namespace flashscope
