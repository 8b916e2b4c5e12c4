// Tests on a GPU. Where there is none they say so and leave with the code that CTest shows as skipped, never as passed.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "kernels/kernels.h"
#include "sim/error.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt
  bool lists = false;           // asking for the names of the cases needs no GPU
  for (int n = 1; n < argc; ++n)
    lists = lists || std::string(argv[n]).find("list") != std::string::npos || std::string(argv[n]) == "-ltc";
  if (!lists) {
    try {
      flashscope::kernels::open_device();
    } catch (const flashscope::Error& error) {
      std::printf("skipped: %s\n", error.what());
      return kSkipped;
    }
  }
  return doctest::Context(argc, argv).run();
}
