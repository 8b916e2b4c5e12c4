#include "sim/machine/machine.h"

namespace flashscope {

const std::vector<MachineField>& machine_fields() {
  static const std::vector<MachineField> fields = {
      {"num_sms", "SM", &Machine::num_sms, 1, 1024},
      {"sm_clock_mhz", "MHz", &Machine::sm_clock_mhz, 100, 10000},
      {"fma_flops_per_clk", "FLOP/clk/SM", &Machine::fma_flops_per_clk, 1, 1 << 20},
      {"tensor_fp16_flops_per_clk", "FLOP/clk/SM", &Machine::tensor_fp16_flops_per_clk, 0, 1 << 20},
      {"tensor_fp8_flops_per_clk", "FLOP/clk/SM", &Machine::tensor_fp8_flops_per_clk, 0, 1 << 20},
      {"mma_flops_per_clk", "FLOP/clk/SM", &Machine::mma_flops_per_clk, 0, 1 << 20},
      {"exps_per_clk", "op/clk/SM", &Machine::exps_per_clk, 1, 1024},
      {"smem_bytes_per_clk", "B/clk/SM", &Machine::smem_bytes_per_clk, 1, 4096},
      {"warp_schedulers", "scheduler", &Machine::warp_schedulers, 1, 64},
      {"alu_ops_per_clk", "op/clk/SM", &Machine::alu_ops_per_clk, 1, 4096},
      {"bank_reads_per_clk", "operand/clk", &Machine::bank_reads_per_clk, 1, 16},
      {"on_chip_latency_clk", "clk", &Machine::on_chip_latency_clk, 0, 1000},
      {"code_lines_in_flight", "line", &Machine::code_lines_in_flight, 1, 1024},
      {"registers_per_sm", "register", &Machine::registers_per_sm, 1024, 1 << 22},
      {"smem_bytes_per_sm", "B", &Machine::smem_bytes_per_sm, 1024, 1 << 24},
      {"smem_bytes_per_cta", "B", &Machine::smem_bytes_per_cta, 1024, 1 << 24},
      {"smem_bytes_reserved_per_cta", "B", &Machine::smem_bytes_reserved_per_cta, 0, 1 << 16},
      {"max_threads_per_sm", "thread", &Machine::max_threads_per_sm, 32, 1 << 16},
      {"max_ctas_per_sm", "CTA", &Machine::max_ctas_per_sm, 1, 1024},
      {"l2_bytes", "B", &Machine::l2_bytes, 1 << 10, 1e12},
      {"l2_partitions", "partition", &Machine::l2_partitions, 1, 2},
      {"l2_gb_per_s", "GB/s", &Machine::l2_gb_per_s, 1, 1e6},
      {"l2_bytes_per_clk_per_sm", "B/clk/SM", &Machine::l2_bytes_per_clk_per_sm, 1, 4096},
      {"l2_latency_ns", "ns", &Machine::l2_latency_ns, 0, 1e5},
      {"l2_far_latency_ns", "ns", &Machine::l2_far_latency_ns, 0, 1e5},
      {"hbm_bytes", "B", &Machine::hbm_bytes, 1 << 20, 1e15},
      {"hbm_read_gb_per_s", "GB/s", &Machine::hbm_read_gb_per_s, 1, 1e6},
      {"hbm_write_gb_per_s", "GB/s", &Machine::hbm_write_gb_per_s, 1, 1e6},
      {"hbm_latency_ns", "ns", &Machine::hbm_latency_ns, 0, 1e6},
      {"cta_start_ns", "ns", &Machine::cta_start_ns, 0, 1e6},
      {"barrier_ns", "ns", &Machine::barrier_ns, 0, 1e6},
      {"launch_gap_us", "µs", &Machine::launch_gap_us, 0, 1e4},
  };
  return fields;
}

}  // namespace flashscope
