#include "viz/cli/lesson_html_inspector.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/format.h"
#include "viz/cli/html_text.h"
#include "viz/core/comparison.h"
#include "viz/core/lesson_show.h"
#include "viz/core/memory_curve.h"
#include "viz/core/roofline.h"
#include "viz/core/sweep.h"
#include "viz/core/text.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

using namespace viz;

std::string table_html(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  const auto line = [](const std::vector<std::string>& cells, const char* tag) {
    std::string out = "<tr>";
    for (const std::string& cell : cells) out += formatted("<{}>{}</{}>", tag, html_escaped(kept_together(cell)), tag);
    return out + "</tr>\n";
  };
  std::string out = "<table>" + line(head, "th");
  for (const auto& row : rows) out += line(row, "td");
  return out + "</table>\n";
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start") {
  return formatted("<text class=\"dim\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor,
                   html_escaped(text));
}

std::string rectangle(double x, double y, double w, double h, const std::string& fill) {
  return formatted("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>", x, y, w, h,
                   fill);
}

std::string picture(double height, const std::string& title, const std::string& svg) {
  return formatted(
      "<figure><svg width=\"660\" viewBox=\"0 0 660 {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>"
      "<figcaption>{}</figcaption></figure>\n",
      height, html_escaped(title), svg, html_escaped(title));
}

/// Bars exp(score - m) of the tiles that are done, and the steps so far as a table.
std::string softmax_html(const OpenLesson& open, const LessonShow& show) {
  const SoftmaxChoice choice = softmax_of(open, show);
  const SoftmaxSteps steps = softmax_steps(choice);
  const double w = 640.0 / static_cast<double>(choice.scores.size()), base = 130;
  std::string svg;
  std::vector<std::vector<std::string>> rows;
  for (const SoftmaxStep& step : steps.steps) {
    const bool done = static_cast<int>(&step - steps.steps.data()) < choice.tiles;
    const double m = steps.steps[static_cast<std::size_t>(std::max(0, choice.tiles - 1))].m;
    svg += formatted(
        "<rect x=\"{:.1f}\" y=\"4\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"var(--line)\"/>",
        step.first * w + 2, (step.last - step.first) * w - 4, base + 22);
    for (int key = step.first; key < step.last; ++key) {
      const double score = choice.scores[static_cast<std::size_t>(key)], height = done ? 100 * std::exp(score - m) : 0;
      if (done)
        svg += rectangle(key * w + w / 4, base - height, w / 2, height, "var(--tensor-P)") +
               text_at((key + 0.5) * w, base - height - 4, formatted("{:.4f}", std::exp(score - m)), "middle");
      svg += text_at((key + 0.5) * w, base + 16, formatted("{:.3f}", score), "middle");
    }
    if (done)
      rows.push_back({std::to_string(rows.size() + 1), formatted("{:.4f}", step.m), formatted("{:.4f}", step.rescale),
                      formatted("{:.4f}", step.l)});
  }
  return picture(base + 32, "Scores, and above them exp(score − m) of the tiles that are done", svg) +
         table_html({"tiles read", "m", "rescale", "l"}, rows);
}

/// The SM's resources as bars, with a piece for each CTA it holds.
std::string occupancy_html(const OpenLesson& open, const LessonShow& show) {
  std::string svg;
  double y = 16;
  for (const OccupancyRow& row : occupancy_of(open, show)) {
    svg += text_at(0, y,
                   row.kernel + ": " + std::to_string(row.ctas_per_sm) + (row.ctas_per_sm == 1 ? " CTA" : " CTAs") +
                       " an SM; " + grouped(row.ctas) + " CTAs, " + grouped_decimal(row.waves, 2) + " waves");
    for (const OccupancyLimit& limit : row.limits) {
      y += 20;
      const double piece = limit.per_sm > 0 ? 400 * limit.per_cta / limit.per_sm : 0;
      svg += text_at(0, y, limit.name) + rectangle(110, y - 11, 400, 13, "var(--grip)");
      for (int n = 0; n < row.ctas_per_sm; ++n)
        svg += formatted(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"13\" fill=\"var(--reason-smem)\" "
            "opacity=\"{}\"/>",
            110 + n * piece, y - 11, std::max(1.0, piece - 2), limit.binds ? "1" : "0.45");
      svg += text_at(522, y, "would let in " + std::to_string(limit.ctas));
    }
    y += 34;
  }
  return picture(y - 12, "What the CTAs on one SM take of it; the full colour is the limit that binds", svg);
}

std::string memory_html(const OpenLesson& open, const LessonShow& show) {
  const Settings settings = stage_settings(open, show);
  std::vector<Machine> machines;
  for (const std::string& name : machine_names()) machines.push_back(load_machine(name));
  const MemoryCurve curve = memory_curve(settings, machines);
  std::vector<std::vector<std::string>> rows;
  for (const MemoryLimit& limit : curve.limits)
    rows.push_back({limit.gpu, size_text(limit.bytes), grouped(limit.largest[0]), grouped(limit.largest[1])});
  return figure_svg(curve.figure) +
         table_html({"largest N that fits", "memory", settings.algorithms[0], settings.algorithms[1]}, rows);
}

/// What the engine knows of a run; throws where it was counted alone.
const WholeRun& whole_of(const OpenLesson& open, const std::string& name) {
  const RunFacts& run = open.run(name);
  if (!run.whole)
    throw Error(ErrorKind::input, "run " + name + " is counted alone (timed = false), and this panel has times");
  return *run.whole;
}

std::string roofline_html(const OpenLesson& open, const LessonShow& show) {
  Settings settings = stage_settings(open, show);
  const Machine machine = load_machine(settings.gpu);
  settings.gpu = machine.name;  // as recordings call it, also where it was read from a file
  std::array<std::optional<WholeRun>, 2> runs;
  for (std::size_t n = 0; n < show.runs.size(); ++n) runs[n] = whole_of(open, show.runs[n]);
  return figure_svg(roofline_figure(settings, machine, runs, *open.run(show.runs[0]).recordings));
}

/// Predicted beside recorded, a table for each run.
std::string bytes_html(const OpenLesson& open, const LessonShow& show) {
  std::string out;
  for (const std::string& name : show.runs) {
    WholeRun whole = whole_of(open, name);
    const RunFacts& run = open.run(name);
    Settings settings = *run.settings;
    const Machine machine = load_machine(settings.gpu);
    settings.gpu = machine.name;
    const std::string& algorithm = settings.algorithms[0];
    RunOptions options;
    options.start = settings.start;
    whole.time_us_at_recorded_clock = time_us_at_clock_of(recorded_row(settings, algorithm, *run.recordings),
                                                          *make_schedule(algorithm, settings.problem, settings.tile),
                                                          machine, options, *whole.prediction.value);
    const Comparison comparison = compare(settings, algorithm, whole, *run.recordings);
    std::vector<std::vector<std::string>> rows;
    for (const ComparisonRow& row : comparison.rows) {
      const auto cell = [&](const kernels::Measured<double>& value) {
        return value.value ? row.value_text(*value.value) : "unavailable (" + value.reason + ")";
      };
      rows.push_back({row.label, cell(row.predicted), cell(row.measured), row.error_text()});
    }
    out += table_html({algorithm, "predicted", "recorded", "error"}, rows) + "<p><small>" +
           html_escaped(describe(settings.problem) + "; " + comparison.measured_from) + "</small></p>\n";
  }
  return out;
}

std::string sweep_html(const OpenLesson& open, const LessonShow& show) {
  const SweepChoice choice = sweep_of(open, show);
  std::vector<Machine> machines;
  for (const std::string& name : machine_names()) machines.push_back(load_machine(name));
  const std::vector<Recording>& recordings = *open.run(show.runs[0]).recordings;
  const auto job = make_sweep({stage_settings(open, show), choice.over}, machines, recordings);
  while (job->step([] { return true; })) {
  }
  return figure_svg(sweep_figure(job->result(), choice.show, recordings));
}

/// The plot's frame on the page.
struct Frame {
  double x = 100, y = 40, w = 536, h = 340;
  viz::Axis across, up;
  double at_x(double value) const { return x + w * place_on(across, value); }
  double at_y(double value) const { return y + h * (1 - place_on(up, value)); }
};

const char* color_of(Role role) {
  return role == Role::left ? "var(--left)" : role == Role::right ? "var(--right)" : "var(--dim)";
}

std::string series_svg(const Series& series, const Frame& frame) {
  std::string svg, path;
  for (const FigurePoint& point : series.points) {
    const double x = frame.at_x(point.x), y = frame.at_y(point.y);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    if (series.form == Series::Form::line)
      path += formatted("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    else
      svg +=
          formatted("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>", x, y,
                    series.form == Series::Form::measured_dots ? "none" : color_of(series.role), color_of(series.role));
  }
  if (!path.empty())
    svg += formatted("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>", path, color_of(series.role));
  return svg;
}

}  // namespace

std::string figure_svg(const Figure& figure) {
  Frame frame;
  frame.across = fitted(figure.x, figure, false);
  frame.up = fitted(figure.y, figure, true);
  const double bottom = frame.y + frame.h, right = frame.x + frame.w;
  std::string svg;
  for (double mark : ticks(frame.up, 7))
    svg += formatted("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"var(--line)\"/>", frame.x, frame.at_y(mark), right) +
           text_at(frame.x - 6, frame.at_y(mark) + 4, tick_text(frame.up, mark), "end");
  for (double mark : ticks(frame.across, 7))
    svg += formatted("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"var(--line)\"/>", frame.at_x(mark), frame.y, bottom) +
           text_at(frame.at_x(mark), bottom + 16, tick_text(frame.across, mark), "middle");
  svg += text_at(frame.x, bottom + 34, figure.x.label) + text_at(0, frame.y - 10, figure.y.label);
  int across = 0;  // guides that lie close: names by turns above at the right, below at the left
  for (const Guide& guide : figure.guides) {
    const double at = guide.vertical ? frame.at_x(guide.at) : frame.at_y(guide.at);
    if (!(at >= (guide.vertical ? frame.x : frame.y) && at <= (guide.vertical ? right : bottom))) continue;
    const bool below = !guide.vertical && across++ % 2 == 0;
    svg +=
        guide.vertical
            ? formatted("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"var(--dim)\" stroke-dasharray=\"5 4\"/>", at,
                        frame.y, bottom) +
                  text_at(at + 4, frame.y + 12, guide.label)
            : formatted("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"var(--dim)\" stroke-dasharray=\"5 4\"/>", frame.x,
                        at, right) +
                  (below ? text_at(frame.x + 4, at + 14, guide.label) : text_at(right - 4, at - 4, guide.label, "end"));
  }
  double y = bottom + 56;
  for (const Series& series : figure.series) {
    svg += series_svg(series, frame);
    svg += series.form == Series::Form::line
               ? formatted("<path d=\"M0 {:.1f}H20\" stroke=\"{}\" stroke-width=\"2\"/>", y - 4, color_of(series.role))
               : formatted("<circle cx=\"10\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>",
                           y - 4, series.form == Series::Form::measured_dots ? "none" : color_of(series.role),
                           color_of(series.role));
    std::string name = series.name;
    if (series.points.size() == 1 && !series.points[0].label.empty()) name += ": " + series.points[0].label;
    svg += text_at(28, y, name);
    y += 18;
  }
  return picture(y, figure.title + (figure.note.empty() ? "" : ". " + figure.note), svg);
}

std::string inspector_html(const OpenLesson& open, const LessonShow& show) {
  using Panel = LessonShow::Panel;
  switch (show.panel) {
    case Panel::softmax: return softmax_html(open, show);
    case Panel::occupancy: return occupancy_html(open, show);
    case Panel::memory: return memory_html(open, show);
    case Panel::roofline: return roofline_html(open, show);
    case Panel::bytes: return bytes_html(open, show);
    case Panel::sweep: return sweep_html(open, show);
    case Panel::stage: break;
  }
  return "";
}

}  // namespace flashscope
