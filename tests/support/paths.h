// Where tests find what lies beside them. The paths are compiled into one object, so that every other one is the same in
// any checkout and comes from the compiler's cache.
#pragma once
#include <string>

namespace flashscope {

std::string test_data(const std::string& file);     // of tests/data
std::string problem_list(const std::string& file);  // of kernels/recordings
std::string source_file(const std::string& file);   // of the repository
std::string flashscope_binary();

}  // namespace flashscope
