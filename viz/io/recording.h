// What a GPU did, kept in a file: shown where there is no GPU, and what predictions are judged by.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "sim/engine/engine.h"
#include "viz/io/json_fwd.h"

namespace flashscope {

struct RecordingRow {
  AttentionProblem problem;
  std::string algorithm;        // a name of --algorithm
  TileShape tile;
  Start start = Start::cold;
  kernels::Measurement measured;
};

struct Recording {
  std::string gpu;      // "NVIDIA H200", as the driver says it
  std::string machine;  // the description it is compared with: "nvidia-h200"
  std::string driver;   // "580.159.04"
  std::string cuda;     // "13.0"
  kernels::Measured<double> sm_clock_mhz, memory_clock_mhz;  // when the recording began
  std::string date;     // of the last row, "2026-11-29"
  std::string protocol; // how time and bytes were taken, in words
  std::string version, commit;  // of the program that measured; filled by set_writer()
  std::vector<RecordingRow> rows;
};

/// Puts this program's version and commit into the recording. Call it where rows are measured, not where they are copied.
void set_writer(Recording& recording);

/// Replaces the row of the same problem (its pass included), algorithm, tile and start state, or adds the row at the end.
void put_row(Recording& recording, RecordingRow row);

/// The row of this problem (its pass included), algorithm and tile; nullptr when there is none. A causal mask and a window with
/// nothing to the right are the same problem, and so are scale 0 and its meaning.
const RecordingRow* find_row(const Recording& recording, const AttentionProblem& problem, const std::string& algorithm,
                             const TileShape& tile, Start start = Start::cold);

/// `file` is the name for messages. Throws Error(input) with file and place.
Recording recording_from_json(std::string_view text, const std::string& file);
Json recording_to_json(const Recording& recording);

Recording load_recording(const std::string& path);
/// Throws Error(io); the file that was there stays as it was.
void save_recording(const std::string& path, const Recording& recording);

/// Names of the recordings shipped with the product, sorted: "nvidia-h200", …; empty when there is none.
std::vector<std::string> recording_names();
/// One of them. Throws Error(usage) with the list for an unknown name.
Recording shipped_recording(const std::string& name);

}  // namespace flashscope
