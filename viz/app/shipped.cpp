#include "viz/app/shipped.h"

#include <algorithm>
#include <cstdio>

#include "sim/error.h"
#include "viz/io/machine_io.h"

namespace flashscope::viz {

std::vector<Machine> known_machines(const std::string& chosen) {
  std::vector<Machine> machines;
  for (const std::string& name : machine_names()) machines.push_back(load_machine(name));
  const auto is_chosen = [&](const Machine& m) { return m.name == chosen; };
  if (std::none_of(machines.begin(), machines.end(), is_chosen)) machines.push_back(load_machine(chosen));
  return machines;
}

std::vector<Recording> shipped_recordings() {
  std::vector<Recording> recordings;
  for (const std::string& name : recording_names()) {
    try {
      recordings.push_back(shipped_recording(name));
    } catch (const Error& error) {
      std::fprintf(stderr, "flashscope-window: %s\n", error.what());
    }
  }
  return recordings;
}

}  // namespace flashscope::viz
