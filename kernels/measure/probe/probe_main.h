// What main() of every probe does.
#pragma once
#include <cstdio>

#include "kernels/measure/counter_backend.h"
#include "sim/error.h"

namespace flashscope::kernels {

/// Runs a probe, int(); what it throws becomes a line on standard error and an exit code.
template <class Probe>
int probe_main(const char* name, Probe probe) {
  try {
    return probe();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return error.exit_code();
  } catch (const CounterFault& fault) {
    std::fprintf(stderr, "%s: %s\n", name, fault.what());
    return 4;
  }
}

}  // namespace flashscope::kernels
