#include "tests/support/paths.h"

namespace flashscope {

std::string source_file(const std::string& file) { return FLASHSCOPE_SOURCE "/" + file; }
std::string test_data(const std::string& file) { return source_file("tests/data/" + file); }
std::string problem_list(const std::string& file) { return source_file("kernels/recordings/" + file); }
std::string flashscope_binary() { return FLASHSCOPE_BINARY; }

}  // namespace flashscope
