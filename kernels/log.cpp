// The schedule as a kernel's log would tell it.
#include "kernels/kernels.h"

namespace flashscope::kernels {
namespace {

class LogSink final : public OpSink {
 public:
  LogSink(int kernel, std::vector<LoggedOp>& log) : m_kernel(kernel), m_log(log) {}
  void start(std::int64_t cta) { m_cta = cta; }
  void op(const TileOp& t) override {
    if (t.op == Op::barrier || t.op == Op::wait) return;
    m_log.push_back({m_kernel, m_cta, t.op, t.tensor, t.head, t.row, t.rows, t.col, t.cols, t.depth, t.bytes,
                     t.heads});
  }

 private:
  int m_kernel;
  std::int64_t m_cta = 0;
  std::vector<LoggedOp>& m_log;
};

}  // namespace

std::vector<LoggedOp> expected_log(const Schedule& schedule) {
  std::vector<LoggedOp> log;
  for (int kernel = 0; kernel < static_cast<int>(schedule.kernels().size()); ++kernel) {
    LogSink sink(kernel, log);
    for (std::int64_t cta = 0; cta < schedule.kernels()[static_cast<std::size_t>(kernel)].ctas(); ++cta) {
      sink.start(cta);
      schedule.walk(kernel, cta, sink);
    }
  }
  return log;
}

}  // namespace flashscope::kernels
