// A calibration made into a machine description, and the file that keeps both.
#pragma once
#include <string>
#include <string_view>

#include "kernels/calibrate/calibration.h"
#include "sim/machine/machine.h"
#include "viz/io/json_fwd.h"

namespace flashscope {

/// The shipped description whose documented numbers stand beside, and where nothing is measured in place of, a
/// calibration's.
struct CalibrationBase {
  Machine machine;
  bool same_gpu = false;  // else the nearest of its generation: its numbers are marked as another GPU's
};
/// Chosen by the driver's name of the GPU, else by compute capability.
CalibrationBase calibration_base(const kernels::DeviceInfo& info);

/// "nvidia-h200" for "NVIDIA H200".
std::string machine_name_of(const std::string& gpu);

/// The base with every field that the calibration measured: value, spread, date, and what documents say beside it.
/// Throws Error(verify) when the result is no valid machine (a value out of range, near latency above far), naming the
/// field.
Machine calibrated_machine(const CalibrationBase& base, const kernels::DeviceInfo& info,
                           const kernels::Calibration& calibration, const std::string& date);

/// The machine file with all readings beside it, those that no field takes too, under the key "calibration", and the
/// version and commit of this program.
Json calibration_to_json(const Machine& machine, const kernels::DeviceInfo& info,
                         const kernels::Calibration& calibration, const std::string& date);
/// The readings of such a file. `file` is the name for messages. Throws Error(input) with file and place.
kernels::Calibration calibration_from_json(std::string_view text, const std::string& file);

}  // namespace flashscope
