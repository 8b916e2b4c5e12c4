#include "viz/cli/lesson_html.h"

#include <algorithm>
#include <cstdint>

#include "sim/error.h"
#include "viz/cli/format.h"
#include "viz/cli/html_text.h"
#include "viz/cli/lesson_html_color.h"
#include "viz/cli/lesson_html_inspector.h"
#include "viz/cli/lesson_html_stage.h"
#include "viz/core/lesson_page.h"
#include "viz/core/text.h"
#include "viz/io/version.h"
#include "viz/render/palette.h"

namespace flashscope {
namespace {

using namespace viz;

std::string hex(Color color) {
  return formatted("#{:02x}{:02x}{:02x}", color & 0xFF, color >> 8 & 0xFF, color >> 16 & 0xFF);
}

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
  for (int t = 0; t < kNumTensors; ++t)
    set(css_variable(static_cast<Tensor>(t)), c.tensors[static_cast<std::size_t>(t)]);
  for (int r = 0; r < kNumReasons; ++r)
    set(css_variable(static_cast<Reason>(r)), c.reasons[static_cast<std::size_t>(r)]);
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
    const std::string shown = html_escaped(span.text);
    switch (span.style) {
      case PageSpan::Style::text: out += shown; break;
      case PageSpan::Style::strong: out += "<strong>" + shown + "</strong>"; break;
      case PageSpan::Style::emphasis: out += "<em>" + shown + "</em>"; break;
      case PageSpan::Style::code: out += "<code>" + shown + "</code>"; break;
      case PageSpan::Style::value:
        out += "<span class=\"value\" title=\"" + html_escaped(span.tip) + "\">" + shown + "</span>";
        break;
      case PageSpan::Style::link: {
        // Another lesson of the folder is exported beside this page.
        std::string target = span.target;
        if (target.size() > 3 && target.substr(target.size() - 3) == ".md")
          target.replace(target.size() - 3, 3, ".html");
        out += "<a href=\"" + html_escaped(target) + "\">" + shown + "</a>";
        break;
      }
      case PageSpan::Style::term: {
        std::string mark;
        if (span.term && span.term->thing == Term::Thing::tensor) mark = css_variable(span.term->tensor);
        if (span.term && span.term->thing == Term::Thing::reason) mark = css_variable(span.term->reason);
        out += "<span class=\"term\"" + (mark.empty() ? "" : " style=\"--mark:var(" + mark + ")\"") + " title=\"" +
               html_escaped(span.tip) + "\">" + shown + "</span>";
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
  return "<figure><img alt=\"" + html_escaped(text) + "\" src=\"data:image/" + html_escaped(type) + ";base64," +
         base64(library.bytes(file)) + "\"></figure>\n";
}

std::string show_html(const OpenLesson& open, const LessonShow& show, const std::string& point) {
  std::string out = show.has_stage() ? stage_html(open, show, point) : "";
  if (show.panel != LessonShow::Panel::stage) out += inspector_html(open, show);
  return out;
}

/// In place of what cannot be shown: the reason, which is told too. The page goes on.
std::string missing_html(const std::string& reason, std::vector<std::string>& notices) {
  notices.push_back(reason);
  return "<p><em>" + html_escaped(reason) + "</em></p>\n";
}

std::string ask_html(const PageAsk& ask, const Question& question, const OpenLesson& open) {
  std::string out = "<div class=\"ask\"><p>" + std::string(ask.predict ? "<strong>Predict first.</strong> " : "") +
                    html(ask.question) + "</p>\n";
  if (ask.kind == LessonAsk::Kind::choice) {
    out += "<ul>";
    for (const std::string& option : question.options) out += "<li>" + html_escaped(kept_together(option)) + "</li>";
    out += "</ul>\n";
  }
  if (ask.kind == LessonAsk::Kind::order) {
    out += "<p>Put into order: ";
    for (std::size_t n = 0; n < question.items.size(); ++n)
      out += (n ? " · " : "") + html_escaped(kept_together(question.items[n]));
    out += "</p>\n";
  }
  for (const LessonText& hint : open.lesson.asks[ask.index].hints)
    out += "<details><summary>Hint</summary><p>" + html_escaped(kept_together(open.plain(hint))) + "</p></details>\n";
  return out + "<details><summary>Answer</summary><p><strong>" + html_escaped(kept_together(ask.answer)) +
         "</strong></p><p>" + html(ask.reason) + "</p></details></div>\n";
}

}  // namespace

std::string lesson_html(const OpenLesson& open, const LessonLibrary& library, std::vector<std::string>& notices) {
  LearnState everything;
  everything.lecturer = true;  // answers are there, folded away
  const Lesson& lesson = open.lesson;
  std::string body = "<h1>" + html_escaped(lesson.title) + "</h1>\n<p>" + html_escaped(lesson.summary) + "</p>\n";
  if (std::any_of(lesson.shows.begin(), lesson.shows.end(), [](const LessonShow& show) { return show.has_stage(); }))
    body +=
        "<p><em>On this page the stage is a still of what FlashScope’s window plays: the clock, the mouse and the keys "
        "of which the text speaks are there.</em></p>\n";
  for (everything.step = 0; everything.step < static_cast<int>(lesson.steps.size()); ++everything.step) {
    const LessonPage page = lesson_page(open, everything);
    body += "<h2>" + html_escaped(page.title) + "</h2>\n";
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
        case Kind::code: body += "<pre>" + html_escaped(block.code) + "</pre>\n"; break;
        case Kind::bullet: body += (before == Kind::bullet ? "<li>" : "<ul><li>") + html(block.text) + "</li>\n"; break;
        case Kind::numbered:
          body += (before == Kind::numbered ? "" : "<ol>") + formatted("<li value=\"{}\">", block.number) +
                  html(block.text) + "</li>\n";
          break;
        case Kind::image:
          body += block.picture.empty() ? missing_html(block.text[0].text, notices)
                                        : picture(block.picture, block.text[0].text, library);
          break;
        case Kind::show: {
          const LessonShow& show = lesson.shows[block.index];
          try {
            body += show_html(open, show, html(block.text));
          } catch (const Error& error) {
            const std::string here = lesson.file + ":", text = error.what();
            body +=
                missing_html(text.rfind(here, 0) == 0 ? text : here + std::to_string(show.line) + ": " + text, notices);
          }
          break;
        }
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
         html_escaped(lesson.title) + "</title><style>" + style() + "</style></head>\n<body><main>\n" + body +
         "<footer><p>" + html_escaped(version_line()) + "</p></footer>\n</main></body></html>\n";
}

}  // namespace flashscope
