// A round-numbered machine for tests that must not move when a real GPU's description does.
#pragma once
#include "sim/machine/machine.h"

namespace flashscope {

inline Machine test_machine() {
  Machine m;
  m.name = "test";
  const auto set = [&](Quantity Machine::*member, double value) { (m.*member).value = value; };
  set(&Machine::num_sms, 16);
  set(&Machine::sm_clock_mhz, 1000);
  set(&Machine::fma_flops_per_clk, 256);
  set(&Machine::tensor_fp16_flops_per_clk, 4096);
  set(&Machine::mma_flops_per_clk, 2048);
  set(&Machine::exps_per_clk, 16);
  set(&Machine::smem_bytes_per_clk, 128);
  set(&Machine::warp_schedulers, 4);
  set(&Machine::alu_ops_per_clk, 64);
  set(&Machine::bank_reads_per_clk, 1);
  set(&Machine::on_chip_latency_clk, 30);
  set(&Machine::code_lines_in_flight, 16);
  set(&Machine::registers_per_sm, 65536);
  set(&Machine::smem_bytes_per_sm, 233472);
  set(&Machine::smem_bytes_per_cta, 232448);
  set(&Machine::smem_bytes_reserved_per_cta, 1024);
  set(&Machine::max_threads_per_sm, 2048);
  set(&Machine::max_ctas_per_sm, 32);
  set(&Machine::l2_bytes, 4 << 20);
  set(&Machine::l2_partitions, 2);
  set(&Machine::l2_gb_per_s, 640);
  set(&Machine::l2_bytes_per_clk_per_sm, 64);
  set(&Machine::l2_latency_ns, 250);
  set(&Machine::l2_far_latency_ns, 400);
  set(&Machine::hbm_bytes, 16e9);
  set(&Machine::hbm_read_gb_per_s, 400);
  set(&Machine::hbm_write_gb_per_s, 350);
  set(&Machine::hbm_latency_ns, 600);
  set(&Machine::cta_start_ns, 500);
  set(&Machine::barrier_ns, 20);
  set(&Machine::launch_gap_us, 1);
  return m;
}

}  // namespace flashscope
