// A GPU as the simulator sees it: numbers, each with its unit and source. The descriptions are JSON files beside this
// header (docs/adding-a-gpu.md); reading them is viz/io's work.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace flashscope {

/// What a document says where a measured value stands: kept beside it, for people.
struct Documented {
  double value = 0;
  std::string source;  // "datasheet" or "published"
  std::string reference;
};

/// How a calibrated value came about.
struct Spread {
  double p10 = 0, p90 = 0;  // 10th and 90th percentile of the samples, in the value's unit
  int samples = 0;
  std::string date;  // "2026-11-29"
};

/// One number of a machine description.
struct Quantity {
  double value = 0;
  std::string source;     // "datasheet", "calibration" or "published"
  std::string reference;  // where exactly: the document, or the GPU and date of the calibration
  std::optional<Spread> spread;
  std::optional<Documented> documented;
};

struct Machine {
  std::string name;   // "nvidia-h200", as for --gpu
  std::string title;  // "NVIDIA H200 SXM"
  std::string note;   // limits of the description, for people

  // Chip
  Quantity num_sms;
  Quantity sm_clock_mhz;
  Quantity fma_flops_per_clk;          // float32 FMA units, FLOP per clock and SM (a multiply-add is 2)
  Quantity tensor_fp16_flops_per_clk;  // tensor cores, dense, fp16 or bf16 in, float32 accumulation; 0: none
  Quantity tensor_fp8_flops_per_clk;   // 0: none
  Quantity mma_flops_per_clk;          // what warp instructions (mma.sync) reach of tensor_fp16_flops_per_clk; 0: none
  Quantity exps_per_clk;               // special function unit, per clock and SM
  Quantity smem_bytes_per_clk;         // per SM
  Quantity warp_schedulers;            // per SM, each issues one warp instruction a clock
  Quantity alu_ops_per_clk;            // integer adds, compares, selections, per clock and SM
  Quantity bank_reads_per_clk;   // operands from each of the two register banks of a scheduler, a warp's at a time
  Quantity on_chip_latency_clk;  // to the result of a shared memory read, a shuffle or a special function
  Quantity code_lines_in_flight;       // lines of 128 B that instruction fetch asks for ahead
  // Limits of an SM
  Quantity registers_per_sm;  // 32-bit registers
  Quantity smem_bytes_per_sm;
  Quantity smem_bytes_per_cta;  // largest a kernel may opt in to
  Quantity smem_bytes_reserved_per_cta;
  Quantity max_threads_per_sm;
  Quantity max_ctas_per_sm;
  // Memory hierarchy
  Quantity l2_bytes;
  Quantity l2_partitions;            // 2: a line has a home half and is copied into the half of the SM that asked
  Quantity l2_gb_per_s;              // all SMs together, hits
  Quantity l2_bytes_per_clk_per_sm;  // port of one SM
  Quantity l2_latency_ns;
  Quantity l2_far_latency_ns;  // of the other partition; one partition: the same
  Quantity hbm_bytes;
  Quantity hbm_read_gb_per_s;
  Quantity hbm_write_gb_per_s;
  Quantity hbm_latency_ns;  // of a miss, L2's part included
  // Fixed costs
  Quantity cta_start_ns;
  Quantity barrier_ns;
  Quantity launch_gap_us;  // between dependent kernels of one stream
};

/// Every number of a Machine, in the order of the JSON files: one list for reading, writing, checking and showing.
struct MachineField {
  const char* key;
  const char* unit;
  Quantity Machine::*member;
  double lo, hi;  // accepted range, inclusive
};
const std::vector<MachineField>& machine_fields();

}  // namespace flashscope
