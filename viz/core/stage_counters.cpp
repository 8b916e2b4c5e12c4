#include "viz/core/stage_counters.h"

#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

double share_of(std::int64_t now, std::int64_t all) {
  return all == 0 ? 0 : static_cast<double>(now) / static_cast<double>(all);
}

std::string amount(std::int64_t bytes, std::int64_t all) {
  if (all == 0) return "0 MB";
  const auto total = static_cast<double>(all);
  return counter_digits(static_cast<double>(bytes), total) + counter_unit(total);
}

StageCounter running(const char* name, std::int64_t now, std::int64_t all, bool finished) {
  StageCounter counter{name, {}, share_of(now, all)};
  const std::string whole = amount(all, all), so_far = amount(now, all);
  if (all > 0 && !finished)
    counter.texts.push_back(counter_digits(static_cast<double>(now), static_cast<double>(all)) + " of " + whole);
  counter.texts.push_back(so_far);
  return counter;
}

StageCounter at_sms(const char* name, std::int64_t now, std::int64_t all, std::int64_t formula, bool finished) {
  StageCounter counter = running(name, now, all, finished);
  if (!finished) return counter;
  const std::string whole = amount(all, all);
  counter.checked = all == formula;
  if (counter.checked)
    counter.texts = {whole + " = formula ✓", whole + " ✓"};
  else
    counter.texts = {whole + " = " + three_digits(1 / share_of(formula, all)) + " × formula", whole};
  return counter;
}

StageCounter hbm_writes(const Moved& now, const Moved& all, bool finished) {
  // What a run leaves in L2 is written by it, only later: both together are what Numbers calls HBM write.
  const std::int64_t total = all.hbm_write + all.dirty;
  StageCounter counter{"HBM write", {}, share_of(now.hbm_write, total), share_of(now.dirty, total)};
  const std::string written = now.hbm_write == 0 ? "0 MB" : amount(now.hbm_write, total);
  if (total == 0 || now.dirty == 0) {
    counter.texts = {written};
    return counter;
  }
  const std::string waiting = amount(now.dirty, total) + (finished ? " still in L2" : " in L2");
  counter.texts = {
      written + ", " + waiting, written + ", " + amount(now.dirty, total) + " in L2",
      (now.hbm_write == 0 ? "0" : counter_digits(static_cast<double>(now.hbm_write), static_cast<double>(total))) +
          " + " + amount(now.dirty, total) + " in L2"};
  if (now.hbm_write == 0)
    counter.texts.push_back(amount(now.dirty, total) + " in L2");
  else  // the bar shows which is which
    for (bool whole : {false, true}) {
      const auto digits = [&](std::int64_t bytes) {
        const std::string text = counter_digits(static_cast<double>(bytes), static_cast<double>(total));
        return whole ? text.substr(0, text.find('.')) : text;
      };
      counter.texts.push_back(digits(now.hbm_write) + " + " + digits(now.dirty) + counter_unit(static_cast<double>(total)));
    }
  return counter;
}

}  // namespace

std::vector<StageCounter> stage_counters(const StageTrace& trace, const Scene& scene) {
  const Moved &now = scene.moved, all = trace.moved_in_all();
  const ClosedForm& form = trace.closed_form();
  return {at_sms("SM read", now.sector_read, all.sector_read, form.sm_read_bytes, scene.finished),
          at_sms("SM write", now.sector_write, all.sector_write, form.sm_write_bytes, scene.finished),
          running("HBM read", now.hbm_read, all.hbm_read, scene.finished), hbm_writes(now, all, scene.finished)};
}

}  // namespace flashscope::viz
