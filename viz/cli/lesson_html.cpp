#include "viz/cli/lesson_html.h"

#include <algorithm>
#include <set>

#include "sim/error.h"
#include "viz/cli/format.h"
#include "viz/cli/html_text.h"
#include "viz/cli/lesson_html_inspector.h"
#include "viz/core/lesson_page.h"
#include "viz/core/lesson_show.h"
#include "viz/core/scene.h"
#include "viz/core/session.h"
#include "viz/core/text.h"
#include "viz/io/machine_io.h"
#include "viz/io/version.h"
#include "viz/render/palette.h"

namespace flashscope {
namespace {

using namespace viz;
using Cell = viz::TileState;  // sim's TileState is the online softmax of a tile

std::string escaped(const std::string& text) { return html_escaped(text); }

std::string hex(Color color) {
  return formatted("#{:02x}{:02x}{:02x}", color & 0xFF, color >> 8 & 0xFF, color >> 16 & 0xFF);
}

/// The CSS variable of a colour: the same page serves light and dark.
std::string variable(Tensor tensor) { return std::string("--tensor-") + name_of(tensor); }
std::string variable(Reason reason) { return std::string("--reason-") + name_of(reason); }

std::string colors(const Palette& c) {
  std::string css;
  const auto set = [&](const std::string& name, Color color) { css += name + ":" + hex(color) + ";"; };
  set("--window", c.window);
  set("--box", c.box);
  set("--text", c.text);
  set("--dim", c.text_dim);
  set("--line", c.line);
  set("--grip", c.grip);
  set("--good", c.good);
  set("--left", c.left);
  set("--right", c.right);
  for (int t = 0; t < kNumTensors; ++t) set(variable(static_cast<Tensor>(t)), c.tensors[static_cast<std::size_t>(t)]);
  for (int r = 0; r < kNumReasons; ++r) set(variable(static_cast<Reason>(r)), c.reasons[static_cast<std::size_t>(r)]);
  return css;
}

std::string style() {
  return ":root{" + colors(palette(Theme::light)) + "}@media(prefers-color-scheme:dark){:root{" +
         colors(palette(Theme::dark)) +
         "}}body{background:var(--window);color:var(--text);font:17px/1.55 Inter,system-ui,sans-serif;margin:0}"
         "main{max-width:44em;margin:0 auto;padding:2em 1em 4em}h1{line-height:1.2}h2{margin-top:2.2em}"
         "table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid var(--line);padding:.3em "
         ".9em;text-align:left}"
         "td{font-variant-numeric:tabular-nums}code,pre{background:var(--grip);border-radius:3px;padding:.1em .3em}"
         "pre{padding:.7em;overflow:auto}blockquote{border-left:3px solid var(--line);margin:1em 0;padding-left:1em}"
         ".term{border-bottom:2px solid var(--mark,var(--line));cursor:help}.value{font-weight:600}"
         ".ask{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.2em 1.1em;margin:1.2em 0}"
         "summary{cursor:pointer;color:var(--dim)}figure{margin:1.2em "
         "0}figcaption,footer{color:var(--dim);font-size:.85em}"
         "svg,img{max-width:100%;height:auto}svg text{font:12px Inter,system-ui,sans-serif;fill:var(--text)}svg "
         ".dim{fill:var(--dim)}";
}

std::string html(const PageText& text) {
  std::string out;
  for (const PageSpan& span : text) {
    const std::string shown = escaped(span.text);
    switch (span.style) {
      case PageSpan::Style::text: out += shown; break;
      case PageSpan::Style::strong: out += "<strong>" + shown + "</strong>"; break;
      case PageSpan::Style::emphasis: out += "<em>" + shown + "</em>"; break;
      case PageSpan::Style::code: out += "<code>" + shown + "</code>"; break;
      case PageSpan::Style::value:
        out += "<span class=\"value\" title=\"" + escaped(span.tip) + "\">" + shown + "</span>";
        break;
      case PageSpan::Style::link: {
        // Another lesson of the folder is exported beside this page.
        std::string target = span.target;
        if (target.size() > 3 && target.substr(target.size() - 3) == ".md")
          target.replace(target.size() - 3, 3, ".html");
        out += "<a href=\"" + escaped(target) + "\">" + shown + "</a>";
        break;
      }
      case PageSpan::Style::term: {
        std::string mark;
        if (span.term && span.term->thing == Term::Thing::tensor) mark = variable(span.term->tensor);
        if (span.term && span.term->thing == Term::Thing::reason) mark = variable(span.term->reason);
        out += "<span class=\"term\"" + (mark.empty() ? "" : " style=\"--mark:var(" + mark + ")\"") + " title=\"" +
               escaped(span.tip) + "\">" + shown + "</span>";
        break;
      }
    }
  }
  return out;
}

std::string base64(const std::string& bytes) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t n = 0; n < 3; ++n)
      group = group << 8 | (at + n < bytes.size() ? static_cast<unsigned char>(bytes[at + n]) : 0);
    for (std::size_t n = 0; n < 4; ++n) out += at + n <= bytes.size() ? digits[group >> (18 - 6 * n) & 63] : '=';
  }
  return out;
}

std::string picture(const std::string& file, const std::string& text, const LessonLibrary& library) {
  const std::size_t dot = file.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : file.substr(dot + 1);
  const std::string type = ending == "svg" ? "svg+xml" : ending == "jpg" ? "jpeg" : ending;
  return "<figure><img alt=\"" + escaped(text) + "\" src=\"data:image/" + escaped(type) + ";base64," +
         base64(library.bytes(file)) + "\"></figure>\n";
}

/// Tiles of one head in HBM: used ones in the tensor's colour, those under way framed, the others grey.
std::string map_svg(const TileMap& map, double x, double y, double width, double height) {
  std::string svg;
  const double w = width / map.across, h = height / map.down;
  for (int row = 0; row < map.down; ++row)
    for (int col = 0; col < map.across;) {
      const TileCell& cell = map.at(row, col);
      int end = col + 1;
      while (end < map.across && map.at(row, end).state == cell.state) ++end;
      const bool used = cell.state != Cell::untouched && cell.state != Cell::skipped;
      const bool now = cell.state == Cell::reading || cell.state == Cell::writing;
      svg += formatted(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var({})\" opacity=\"{}\"/>",
          x + col * w, y + row * h, (end - col) * w, h, used ? variable(map.tensor) : "--grip",
          cell.state == Cell::skipped ? "0.3"
          : now || !used              ? "1"
                                      : "0.6");
      col = end;
    }
  svg += formatted(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"var(--line)\"/>", x, y,
      width, height);
  return svg;
}

std::string text_svg(double x, double y, const std::string& text, const char* attributes = "") {
  return formatted("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>", x, y, attributes, escaped(text));
}

/// The CTA that the lesson names, or else the first at work.
const CtaView* cta_of(const Scene& scene, int wanted) {
  const CtaView* first = nullptr;
  for (const SmView& sm : scene.sms)
    for (const CtaView& cta : sm.ctas) {
      if (cta.cta == wanted) return &cta;
      if (!first) first = &cta;
    }
  return first;
}

/// What the CTAs of SM 0 spend their time on, a row a slot, from `left` to `left + width`: one colour a reason.
std::string slots_svg(const StageTrace& trace, double left, double top, double width, double height,
                      Picoseconds duration, std::set<Reason>& seen) {
  std::vector<const SlotTrack*> slots;
  for (const SlotTrack& track : trace.tracks())
    if (track.sm == 0) slots.push_back(&track);
  const double h = height / static_cast<double>(std::max<std::size_t>(1, slots.size()));
  const double scale = width / static_cast<double>(std::max<Picoseconds>(1, duration));
  std::string svg;
  for (std::size_t row = 0; row < slots.size(); ++row)
    for (std::size_t n = slots[row]->first; n < slots[row]->last;) {
      const OpSpan& span = trace.spans()[n];
      Picoseconds end = span.end;
      while (++n < slots[row]->last && trace.spans()[n].reason == span.reason) end = trace.spans()[n].end;
      const double w = static_cast<double>(end - span.begin) * scale;
      if (w < 0.15) continue;  // narrower than any screen shows
      seen.insert(span.reason);
      svg += formatted("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"var({})\"/>",
                       left + static_cast<double>(span.begin) * scale, top + static_cast<double>(row) * h, w, h - 1,
                       variable(span.reason));
    }
  return svg;
}

/// The timeline below the stages, on one clock.
std::string timeline_svg(const std::vector<std::shared_ptr<const StageTrace>>& traces, Picoseconds t, double width,
                         double top) {
  Picoseconds duration = 1;
  for (const auto& trace : traces) duration = std::max(duration, trace->duration());
  const double label = 108, strip = width - label - 12;
  std::set<Reason> seen;
  std::string svg = text_svg(0, top - 8, "SM 0 over time", "class=\"dim\"");
  double y = top;
  for (const auto& trace : traces) {
    svg += text_svg(0, y + 18, trace->schedule().algorithm());
    svg += slots_svg(*trace, label, y, strip, 26, duration, seen);
    y += 32;
  }
  const double now = label + strip * static_cast<double>(t) / static_cast<double>(duration);
  svg += formatted("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"var(--text)\" stroke-width=\"2\"/>", now, top - 4, y);
  double x = label;
  for (Reason reason : seen) {
    svg += formatted("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"var({})\"/>", x, y + 6,
                     variable(reason));
    svg += text_svg(x + 14, y + 15, name_of(reason), "class=\"dim\"");
    x += 28 + 7.0 * static_cast<double>(std::string(name_of(reason)).size());
  }
  return svg;
}

/// One algorithm at one instant from `left` on, no wider than `room`; `bottom` grows to where it ends.
std::string stage_svg(const StageTrace& trace, const Scene& scene, int cta_wanted, double left, double room,
                      double& bottom) {
  std::string svg = formatted("<text x=\"{}\" y=\"16\" font-weight=\"600\">{}, {} of {}</text>", left,
                              escaped(trace.schedule().algorithm()), time_text(static_cast<double>(scene.t) / 1e6),
                              time_text(trace.prediction().time_us()));
  svg += formatted("<text class=\"dim\" x=\"{}\" y=\"36\">in HBM, one head</text>", left);
  std::vector<std::pair<const TileMap*, std::string>> maps;
  for (const TileMap& map : scene.maps) maps.emplace_back(&map, name_of(map.tensor));
  if (trace.scores_stay_on_chip()) maps.emplace_back(&scene.score_visits, "S, on chip");
  const auto is_empty = [](const auto& entry) { return entry.first->across == 0 || entry.first->down == 0; };
  maps.erase(std::remove_if(maps.begin(), maps.end(), is_empty), maps.end());
  const auto map_width = [](const TileMap& map) { return map.across > 1 ? 84.0 : 24.0; };
  const auto place_width = [&](const TileMap& map, const std::string& name) {
    return std::max(map_width(map), 7.0 * static_cast<double>(name.size())) + 12;
  };
  double wanted = 0;
  for (const auto& [map, name] : maps) wanted += place_width(*map, name);
  const double shrunk = std::min(1.0, room / std::max(1.0, wanted));  // a backward pass has many of them
  double x = left;
  for (const auto& [map, name] : maps) {
    svg += map_svg(*map, x, 62, map_width(*map) * shrunk, 84) + text_svg(x, 57, name);
    x += place_width(*map, name) * shrunk;
  }
  double y = 172;
  const CtaView* cta = cta_of(scene, cta_wanted);
  svg +=
      formatted("<text class=\"dim\" x=\"{}\" y=\"{}\">{}</text>", left, y,
                cta ? escaped(formatted("on chip, CTA {}: {}", cta->cta, cta->doing)) : "on chip: no CTA at work");
  x = left;
  for (const HeldTile& tile : cta ? cta->tiles : std::vector<HeldTile>()) {
    const double width = 16 + 8.0 * static_cast<double>(tile.name.size());
    if (x > left && x + width > left + room) {
      x = left;
      y += 28;
    }
    svg += formatted("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"22\" rx=\"3\" fill=\"var({})\" opacity=\"{}\"/>",
                     x, y + 10, width, variable(tile.tensor), tile.spent ? "0.35" : "0.6");
    svg += formatted("<text x=\"{}\" y=\"{}\">{}</text>", x + 8, y + 26, escaped(tile.name));
    x += width + 8;
  }
  bottom = std::max(bottom, y + 56);
  return svg + formatted("<text x=\"{}\" y=\"{}\">moved: {} to the SMs, {} from HBM, {} to HBM</text>", left,
                         y + 56, size_text(static_cast<double>(scene.moved.sm_read)),
                         size_text(static_cast<double>(scene.moved.hbm_read)),
                         size_text(static_cast<double>(scene.moved.hbm_write)));
}

std::string show_html(const OpenLesson& open, const LessonShow& show, const std::string& point) {
  if (!show.has_stage()) return inspector_html(open, show);
  const Settings settings = stage_settings(open, show);
  const Machine machine = load_machine(settings.gpu);
  const AttentionProblem problem = stage_problem(settings, kMaxStageOps);
  std::vector<std::shared_ptr<const StageTrace>> traces;
  for (std::size_t n = 0; n < show.runs.size(); ++n)
    traces.push_back(trace_stage(settings.algorithms[n], problem, settings.tile, machine, settings.start));
  const Picoseconds t = moment_of(open.lesson, show, *traces.back());
  const double width = traces.size() == 2 ? 720 : 460, between = 20;
  const double room = traces.size() == 2 ? (width - between) / 2 : width;
  double bottom = 0;
  std::string stages;
  for (std::size_t n = 0; n < traces.size(); ++n)
    stages += stage_svg(*traces[n], make_scene(*traces[n], t, static_cast<int>(machine.num_sms.value)), show.cta,
                        (room + between) * static_cast<double>(n), room, bottom);
  const double top = bottom + 32, height = top + 26 + 32 * static_cast<double>(traces.size());
  const std::string svg = formatted("<svg width=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"the stage\">",
                                    width, width, height) +
                          stages + timeline_svg(traces, t, width, top);
  return "<figure>" + svg + "</svg><figcaption>The stage: " + escaped(describe(problem)) + ", on " +
         escaped(machine.title) + ". " + point + "</figcaption></figure>\n";
}

std::string ask_html(const PageAsk& ask, const Question& question, const OpenLesson& open) {
  std::string out = "<div class=\"ask\"><p>" + std::string(ask.predict ? "<strong>Predict first.</strong> " : "") +
                    html(ask.question) + "</p>\n";
  if (ask.kind == LessonAsk::Kind::choice) {
    out += "<ul>";
    for (const std::string& option : question.options) out += "<li>" + escaped(kept_together(option)) + "</li>";
    out += "</ul>\n";
  }
  if (ask.kind == LessonAsk::Kind::order) {
    out += "<p>Put into order: ";
    for (std::size_t n = 0; n < question.items.size(); ++n)
      out += (n ? " · " : "") + escaped(kept_together(question.items[n]));
    out += "</p>\n";
  }
  for (const LessonText& hint : open.lesson.asks[ask.index].hints)
    out += "<details><summary>Hint</summary><p>" + escaped(kept_together(open.plain(hint))) + "</p></details>\n";
  return out + "<details><summary>Answer</summary><p><strong>" + escaped(kept_together(ask.answer)) +
         "</strong></p><p>" + html(ask.reason) + "</p></details></div>\n";
}

}  // namespace

std::string lesson_html(const OpenLesson& open, const LessonLibrary& library, std::vector<std::string>& notices) {
  LearnState everything;
  everything.lecturer = true;  // answers are there, folded away
  const Lesson& lesson = open.lesson;
  std::string body = "<h1>" + escaped(lesson.title) + "</h1>\n<p>" + escaped(lesson.summary) + "</p>\n";
  for (everything.step = 0; everything.step < static_cast<int>(lesson.steps.size()); ++everything.step) {
    const LessonPage page = lesson_page(open, everything, library);
    body += "<h2>" + escaped(page.title) + "</h2>\n";
    using Kind = LessonBlock::Kind;
    Kind before = Kind::paragraph;
    const auto close_list = [&](Kind next) {
      if (before != next && before == Kind::bullet) body += "</ul>\n";
      if (before != next && before == Kind::numbered) body += "</ol>\n";
    };
    for (const PageBlock& block : page.blocks) {
      close_list(block.kind);
      switch (block.kind) {
        case Kind::paragraph: body += "<p>" + html(block.text) + "</p>\n"; break;
        case Kind::heading: body += "<h3>" + html(block.text) + "</h3>\n"; break;
        case Kind::quote: body += "<blockquote>" + html(block.text) + "</blockquote>\n"; break;
        case Kind::code: body += "<pre>" + escaped(block.code) + "</pre>\n"; break;
        case Kind::bullet: body += (before == Kind::bullet ? "<li>" : "<ul><li>") + html(block.text) + "</li>\n"; break;
        case Kind::numbered:
          body += (before == Kind::numbered ? "<li>" : "<ol><li>") + html(block.text) + "</li>\n";
          break;
        case Kind::image:
          if (block.picture.empty()) notices.push_back(html(block.text));
          body += block.picture.empty() ? "<p><em>" + html(block.text) + "</em></p>\n"
                                        : picture(block.picture, block.text[0].text, library);
          break;
        case Kind::show: body += show_html(open, lesson.shows[block.index], html(block.text)); break;
        case Kind::ask: body += ask_html(block.ask, open.questions[block.index], open); break;
        case Kind::table:
          body += "<table>";
          for (std::size_t row = 0; row < block.table.size(); ++row) {
            body += "<tr>";
            for (const PageText& cell : block.table[row])
              body += (row ? "<td>" : "<th>") + html(cell) + (row ? "</td>" : "</th>");
            body += "</tr>\n";
          }
          body += "</table>\n";
          break;
      }
      before = block.kind;
    }
    close_list(Kind::paragraph);
  }
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width,initial-scale=1\"><title>" +
         escaped(lesson.title) + "</title><style>" + style() + "</style></head>\n<body><main>\n" + body +
         "<footer><p>" + escaped(version_line()) + "</p></footer>\n</main></body></html>\n";
}

}  // namespace flashscope
