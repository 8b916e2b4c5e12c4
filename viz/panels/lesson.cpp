// The Learn panel: the list of lessons, or one step of one lesson with its questions.
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <utility>

#include "viz/core/text.h"
#include "viz/panels/lesson.h"
#include "viz/render/rich_text.h"

namespace flashscope::viz {
namespace {

/// The look of a text.
struct Look {
  const Ui& ui;
  ImFont *body, *bold, *title;
  float margin = 0;  // kept free on the right
  explicit Look(const Ui& u) : ui(u), body(u.fonts.body), bold(u.fonts.bold), title(u.fonts.title) {}
};

std::vector<TextPiece> pieces_of(const Look& look, const PageText& text, Color color, bool heading = false) {
  const Palette& c = *look.ui.colors;
  std::vector<TextPiece> pieces;
  for (const PageSpan& span : text) {
    TextPiece piece;
    piece.text = span.text;
    piece.font = heading ? look.bold : look.body;
    piece.color = color;
    piece.tip = span.style == PageSpan::Style::value ? "= " + span.tip : span.tip;
    switch (span.style) {
      case PageSpan::Style::text: break;
      case PageSpan::Style::strong:
      case PageSpan::Style::emphasis:
      case PageSpan::Style::value: piece.font = look.bold; break;
      case PageSpan::Style::code: piece.chip = c.grip; break;
      case PageSpan::Style::link:
        piece.underline = c.text_dim;
        piece.tip = span.target;
        break;
      case PageSpan::Style::term:
        if (span.term && span.term->thing == Term::Thing::tensor)
          piece.chip = c.of(span.term->tensor);
        else if (span.term && span.term->thing == Term::Thing::reason)
          piece.chip = c.of(span.term->reason);
        else
          piece.underline = c.text_dim;
        if (piece.chip) piece.color = c.ink_on(piece.chip);
        break;
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

/// Draws at the cursor and moves it below; returns the height.
float write(const Look& look, const PageText& text, Color color, float indent = 0, bool heading = false) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x - indent - look.margin;
  const float height = draw_rich_text(look.ui, ImGui::GetWindowDrawList(), at.x + indent, at.y, width,
                                      pieces_of(look, text, color, heading));
  ImGui::Dummy({width, height});
  return height;
}

void gap(const Look& look, float units) { ImGui::Dummy({0, look.ui.px(units)}); }

void table(const Look& look, const std::vector<std::vector<PageText>>& rows) {
  if (rows.empty()) return;
  const Palette& c = *look.ui.colors;
  const std::size_t columns = rows[0].size();
  // Columns as wide as they need, shrunk in proportion where the panel is narrower.
  std::vector<float> widths(columns, 0);
  float sum = 0;
  for (std::size_t n = 0; n < columns; ++n) {
    for (const auto& row : rows) {
      float width = look.ui.px(10);
      for (const TextPiece& piece : pieces_of(look, row[n], c.text, &row == &rows[0]))
        width += text_width(piece.font, piece.text) + (piece.chip ? look.ui.px(6) : 0);
      widths[n] = std::max(widths[n], width);
    }
    sum += widths[n];
  }
  const float room = ImGui::GetContentRegionAvail().x;
  if (sum > room) {
    // Narrow columns keep their width, the wide ones share what is left.
    const float fair = room / static_cast<float>(columns);
    float kept = 0, wide = 0;
    for (float w : widths) (w <= fair ? kept : wide) += w;
    for (float& w : widths)
      if (w > fair) w *= (room - kept) / wide;
  }
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    float x = at.x, height = 0;
    for (std::size_t n = 0; n < columns; ++n) {
      height = std::max(height, draw_rich_text(look.ui, list, x, at.y, widths[n] - look.ui.px(8),
                                               pieces_of(look, rows[r][n], c.text, r == 0)));
      x += widths[n];
    }
    fill(list, {at.x, at.y + height + look.ui.px(1), std::min(sum, room), 1}, c.line);
    ImGui::Dummy({room, height + look.ui.px(1)});
  }
  gap(look, 6);
}

/// What stands in front of an option: a dot for what was chosen, a tick for what is right.
enum class Mark : std::uint8_t { none, chosen, right };

/// A button whose text may fill lines.
bool option(const Look& look, const std::string& text, Mark mark, bool enabled) {
  const Palette& c = *look.ui.colors;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float indent = look.ui.px(26), width = ImGui::GetContentRegionAvail().x - look.margin;
  ImDrawList* list = ImGui::GetWindowDrawList();
  ImDrawListSplitter layers;  // of its own: these nest
  layers.Split(list, 2);
  layers.SetCurrentChannel(list, 1);
  const float height =
      draw_rich_text(look.ui, list, at.x + indent, at.y + look.ui.px(3), width - indent - look.ui.px(6),
                     pieces_of(look, plain(text), enabled || mark != Mark::none ? c.text : c.text_dim));
  const float radius = look.body->FontSize * 0.32f;
  const ImVec2 center = {at.x + look.ui.px(13), at.y + look.ui.px(3) + look.body->FontSize * 0.6f};
  if (mark == Mark::right) {
    const float r = radius * 1.2f;
    const ImVec2 tick[] = {{center.x - r * 0.5f, center.y + r * 0.05f},
                           {center.x - r * 0.12f, center.y + r * 0.42f},
                           {center.x + r * 0.52f, center.y - r * 0.38f}};
    list->AddCircleFilled(center, r, c.good, 24);
    list->AddPolyline(tick, 3, c.ink_on(c.good), 0, std::max(1.5f, r * 0.28f));
  } else {
    list->AddCircle(center, radius, c.text_dim, 24, std::max(1.0f, look.ui.px(1.2f)));
    if (mark == Mark::chosen) list->AddCircleFilled(center, radius * 0.6f, c.accent, 24);
  }
  ImGui::PushID(text.c_str());
  const bool pressed = ImGui::InvisibleButton("option", {width, height + look.ui.px(4)}) && enabled;
  layers.SetCurrentChannel(list, 0);
  if (enabled && ImGui::IsItemHovered()) fill(list, {at.x, at.y, width, height + look.ui.px(4)}, c.grip, look.ui.px(3));
  layers.Merge(list);
  ImGui::PopID();
  return pressed;
}

/// The first field on the page that waits for a number: what is typed is for it.
struct WaitingField {
  bool is_there = false;
  bool wants_focus = false;
};

class AskWidget {
 public:
  AskWidget(const Look& look, const PageAsk& ask, LearnState& state, const OpenLesson& open, WaitingField& field)
      : m_look(look), m_ask(ask), m_state(state), m_open(open), m_field(field), m_colors(*look.ui.colors) {
    m_look.margin = look.ui.px(12);
  }

  void draw() {
    const Ui& ui = m_look.ui;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 top = ImGui::GetCursorScreenPos();
    const float full = ImGui::GetContentRegionAvail().x;
    ImDrawListSplitter layers;
    layers.Split(list, 2);
    layers.SetCurrentChannel(list, 1);
    ImGui::PushID(static_cast<int>(m_ask.index));
    gap(m_look, 4);
    ImGui::Indent(ui.px(10));
    ImGui::BeginGroup();
    inside();
    ImGui::EndGroup();
    ImGui::Unindent(ui.px(10));
    gap(m_look, 2);
    ImGui::PopID();
    const float height = ImGui::GetCursorScreenPos().y - top.y;
    layers.SetCurrentChannel(list, 0);
    fill(list, {top.x, top.y, full, height}, m_colors.box, ui.px(4));
    fill(list, {top.x, top.y, ui.px(3), height}, m_ask.state.right ? m_colors.good : m_colors.accent, ui.px(2));
    layers.Merge(list);
    gap(m_look, 6);
  }

 private:
  AskState& edit() { return m_state.asks[m_open.lesson.asks[m_ask.index].id]; }

  void inside() {
    if (m_ask.predict) write(m_look, {{PageSpan::Style::strong, "Predict first."}}, m_colors.text_dim);
    write(m_look, m_ask.question, m_colors.text);
    switch (m_ask.kind) {
      case LessonAsk::Kind::number: number(); break;
      case LessonAsk::Kind::choice: choice(); break;
      case LessonAsk::Kind::order: order(); break;
    }
    for (const PageText& hint : m_ask.hints) write(m_look, hint, m_colors.text_dim, m_look.ui.px(8));
    if (!m_ask.verdict.empty())
      write(m_look, {{PageSpan::Style::strong, kept_together(m_ask.verdict)}},
            m_ask.good ? m_colors.good : m_colors.text);
    if (!m_ask.remark.empty()) write(m_look, m_ask.remark, m_ask.good ? m_colors.text_dim : m_colors.warning);
    buttons();
    if (!m_ask.closed) return;
    if (m_ask.says_answer)
      write(m_look, {{PageSpan::Style::text, "Answer: "}, {PageSpan::Style::strong, kept_together(m_ask.answer)}},
            m_colors.text);
    write(m_look, m_ask.reason, m_colors.text);
  }

  void number() {
    if (m_ask.closed) return;
    ImGui::PushFont(m_look.body);
    std::string typed = m_ask.state.typed;
    ImGui::SetNextItemWidth(m_look.body->FontSize * 14);
    const char* hint = m_ask.unit.empty() ? "a number" : "a number, also with a unit";
    // What was graded is selected, so that another answer takes its place.
    const ImGuiInputTextFlags flags =
        ImGuiInputTextFlags_EnterReturnsTrue | (m_ask.state.graded ? ImGuiInputTextFlags_AutoSelectAll : 0);
    if (!std::exchange(m_field.is_there, true) && m_field.wants_focus) ImGui::SetKeyboardFocusHere();
    const bool entered = ImGui::InputTextWithHint("##typed", hint, &typed, flags);
    if (typed != m_ask.state.typed) {
      edit().typed = typed;
      edit().graded = false;
    }
    if (entered) {
      m_state = submit(m_state, m_open, m_ask.index);
      // A wrong answer is mended where it stands. A right one closes the field.
      if (!edit().closed()) ImGui::SetKeyboardFocusHere(-1);
    }
    if (!m_ask.unit.empty()) {
      ImGui::SameLine();
      ImGui::TextUnformatted(m_ask.unit.c_str());
    }
    ImGui::PopFont();
  }

  void choice() {
    for (const std::string& text : m_ask.options) {
      const Mark mark = m_ask.closed && text == m_ask.answer ? Mark::right
                        : m_ask.state.chosen == text         ? Mark::chosen
                                                             : Mark::none;
      if (option(m_look, text, mark, !m_ask.closed)) {
        edit().chosen = text;
        m_state = submit(m_state, m_open, m_ask.index);
      }
    }
  }

  void order() {
    for (std::size_t n = 0; n < m_ask.items.size(); ++n) {
      ImGui::PushID(static_cast<int>(n));
      ImGui::BeginDisabled(m_ask.closed);
      if (ImGui::SmallButton("↑")) m_state = move_item(m_state, m_open, m_ask.index, n, -1);
      ImGui::SameLine();
      if (ImGui::SmallButton("↓")) m_state = move_item(m_state, m_open, m_ask.index, n, 1);
      ImGui::EndDisabled();
      ImGui::SameLine();
      write(m_look, plain(std::to_string(n + 1) + ". " + m_ask.items[n]), m_colors.text);
      ImGui::PopID();
    }
  }

  void buttons() {
    if (m_ask.closed) return;
    ImGui::PushFont(m_look.body);
    bool first = true;
    const auto button = [&](const char* text) {
      if (!std::exchange(first, false)) ImGui::SameLine();
      return ImGui::Button(text);
    };
    if (m_ask.kind != LessonAsk::Kind::choice && button(m_ask.predict ? "Reveal" : "Check"))
      m_state = submit(m_state, m_open, m_ask.index);
    if (m_ask.more_hints && button("Hint")) m_state = show_hint(m_state, m_open, m_ask.index);
    if ((m_ask.predict || m_ask.state.tries > 0 || m_ask.state.hints > 0) &&
        button(m_ask.predict ? "No guess" : "Show the answer"))
      m_state = reveal(m_state, m_open, m_ask.index);
    ImGui::PopFont();
  }

  Look m_look;
  const PageAsk& m_ask;
  LearnState& m_state;
  const OpenLesson& m_open;
  WaitingField& m_field;
  const Palette& m_colors;
};

void list_of_lessons(const Look& look, LearnState& state, const LessonBook& book) {
  const Palette& c = *look.ui.colors;
  ImGui::PushFont(look.title);
  ImGui::TextUnformatted("Lessons");
  ImGui::PopFont();
  gap(look, 4);
  for (const LessonEntry& entry : lesson_entries(book.list->lessons, state.progress)) {
    const Lesson& lesson = *entry.lesson;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x, indent = look.ui.px(38);
    ImDrawList* list = ImGui::GetWindowDrawList();
    ImDrawListSplitter layers;
    layers.Split(list, 2);
    layers.SetCurrentChannel(list, 1);
    const std::string mark = entry.done ? "✓" : std::to_string(lesson.number);
    draw_text(look.ui, list, look.bold, at.x, at.y + look.ui.px(4), look.ui.px(26), entry.done ? c.good : c.text_dim,
              mark, Align::right);
    float height = draw_rich_text(look.ui, list, at.x + indent, at.y + look.ui.px(4), width - indent,
                                  pieces_of(look, plain(lesson.title), c.text, true));
    std::string summary = lesson.summary;
    if (entry.step > 0 && !entry.done)
      summary += " (step " + std::to_string(entry.step) + " of " + std::to_string(entry.steps) + ")";
    height += draw_rich_text(look.ui, list, at.x + indent, at.y + look.ui.px(4) + height, width - indent,
                             pieces_of(look, plain(summary), c.text_dim));
    ImGui::PushID(lesson.id.c_str());
    if (ImGui::InvisibleButton("lesson", {width, height + look.ui.px(8)})) state = go_to_lesson(state, &lesson);
    layers.SetCurrentChannel(list, 0);
    if (ImGui::IsItemHovered()) fill(list, {at.x, at.y, width, height + look.ui.px(8)}, c.grip, look.ui.px(3));
    layers.Merge(list);
    ImGui::PopID();
  }
  for (const std::string& fault : book.list->faults) write(look, plain(fault), c.warning);
  if (book.list->lessons.empty() && book.list->faults.empty())
    write(look, plain("There is no lesson here."), c.text_dim);
}

void steps_bar(const Look& look, LearnState& state, const Lesson& lesson) {
  const Palette& c = *look.ui.colors;
  const auto known = state.progress.find(lesson.id);
  const int furthest = known == state.progress.end() ? state.step : known->second.furthest;
  const int steps = static_cast<int>(lesson.steps.size());
  const float width = ImGui::GetContentRegionAvail().x / static_cast<float>(steps);
  for (int n = 0; n < steps; ++n) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::PushID(n);
    if (ImGui::InvisibleButton("step", {width - look.ui.px(2), look.ui.px(12)})) state = go_to_step(state, lesson, n);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", lesson.steps[static_cast<std::size_t>(n)].title.c_str());
    ImGui::PopID();
    fill(ImGui::GetWindowDrawList(),
         {at.x, at.y + look.ui.px(4), width - look.ui.px(3), look.ui.px(n == state.step ? 5 : 3)},
         n == state.step ? c.accent
         : n <= furthest ? c.text_dim
                         : c.line,
         look.ui.px(1));
    if (n + 1 < steps) ImGui::SameLine(0, look.ui.px(2));
  }
}

void draw_block(const Look& look, const PageBlock& block, LearnState& state, const OpenLesson& open,
                WaitingField& field) {
  using Kind = LessonBlock::Kind;
  const Palette& c = *look.ui.colors;
  const auto marked = [&](const std::string& mark, float indent) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    draw_text(look.ui, ImGui::GetWindowDrawList(), look.body, at.x, at.y, indent, c.text_dim, mark);
    write(look, block.text, c.text, indent);
    gap(look, 1);
  };
  switch (block.kind) {
    case Kind::paragraph:
      write(look, block.text, c.text);
      gap(look, 4);
      break;
    case Kind::heading: write(look, block.text, c.text, 0, true); break;
    case Kind::bullet: marked("•", look.ui.px(16)); break;
    case Kind::numbered: marked(std::to_string(block.number) + ".", look.ui.px(22)); break;
    case Kind::quote:
      write(look, block.text, c.text_dim, look.ui.px(14));
      gap(look, 4);
      break;
    case Kind::code: {
      PageText code = {{PageSpan::Style::code, ""}};
      std::size_t begin = 0;
      while (begin < block.code.size()) {
        const std::size_t end = std::min(block.code.find('\n', begin), block.code.size());
        code[0].text = block.code.substr(begin, end - begin);
        if (!code[0].text.empty()) write(look, code, c.text);
        begin = end + 1;
      }
      gap(look, 4);
      break;
    }
    case Kind::table: table(look, block.table); break;
    case Kind::image:
      // Pictures are for the exported page: the window has the stage.
      write(look, block.picture.empty() ? block.text : plain("[" + block.text[0].text + ": " + block.picture + "]"),
            c.text_dim);
      break;
    case Kind::show:
      ImGui::PushID(static_cast<int>(block.index));
      ImGui::PushFont(look.body);
      if (ImGui::Button("Show me")) state.followed.clear();
      ImGui::PopFont();
      ImGui::PopID();
      if (!block.text.empty()) {
        ImGui::SameLine();
        write(look, block.text, c.text_dim, look.ui.px(4));
      }
      gap(look, 4);
      break;
    case Kind::ask: AskWidget(look, block.ask, state, open, field).draw(); break;
  }
}

void lesson_step(const Look& look, LearnState& state, const LessonBook& book, const Lesson& lesson,
                 const std::string& fault, WaitingField& field) {
  const Palette& c = *look.ui.colors;
  const Ui& ui = look.ui;
  ImGui::PushFont(ui.fonts.small);
  ImGui::TextDisabled("%d  %s", lesson.number, lesson.title.c_str());
  ImGui::PopFont();
  steps_bar(look, state, lesson);
  const float foot = ui.px(34);
  ImGui::BeginChild(("step " + lesson.id + std::to_string(state.step)).c_str(),
                    {0, ImGui::GetContentRegionAvail().y - foot});
  if (!book.open) {
    ImGui::TextUnformatted("Computing this lesson’s numbers …");
    ImGui::ProgressBar(static_cast<float>(book.progress), {-1, ui.px(6)}, "");
  } else {
    const LessonPage page = lesson_page(*book.open, state);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::Dummy({0, draw_paragraph(ui, ImGui::GetWindowDrawList(), look.title, at.x, at.y,
                                    ImGui::GetContentRegionAvail().x, c.text, page.title, 1.1f)});
    gap(look, 1);
    for (const PageBlock& block : page.blocks) draw_block(look, block, state, *book.open, field);
    if (page.waits) write(look, plain("The rest of this step comes after your guess."), c.text_dim);
    if (!fault.empty()) write(look, plain(fault), c.warning);
    for (const std::string& text : book.open->faults) write(look, plain(text), c.warning);
    gap(look, 12);
  }
  ImGui::EndChild();
  const int last = static_cast<int>(lesson.steps.size()) - 1;
  if (ImGui::Button("Lessons")) {
    state = go_to_lesson(state, nullptr);
    return;
  }
  ImGui::SameLine();
  ImGui::Checkbox("lecture", &state.lecturer);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("every answer shown, no progress kept; P: large type");
  ImGui::SameLine(ImGui::GetWindowWidth() - ui.px(176));
  ImGui::BeginDisabled(state.step == 0);
  if (ImGui::Button("Back", {ui.px(76), 0})) state = go_to_step(state, lesson, state.step - 1);
  ImGui::EndDisabled();
  ImGui::SameLine();
  if (state.step < last) {
    if (ImGui::Button("Next", {ui.px(84), 0})) state = go_to_step(state, lesson, state.step + 1);
    return;
  }
  // After the last step the course goes on; its last lesson leads back to the list.
  const auto& lessons = book.list->lessons;
  const auto here = std::find_if(lessons.begin(), lessons.end(), [&](const Lesson& l) { return l.id == lesson.id; });
  const Lesson* next = here == lessons.end() || here + 1 == lessons.end() ? nullptr : &*(here + 1);
  if (ImGui::Button(next ? "Next lesson" : "All lessons", {ui.px(84), 0})) state = go_to_lesson(state, next);
}

}  // namespace

bool lesson_panel(const Ui& ui, const Rect& area, LearnState& state, const LessonBook& book, const std::string& fault,
                  bool answering) {
  WaitingField field{false, answering};
  begin_panel(ui, "lesson", area);
  const Look look(ui);
  if (const Lesson* lesson = book.find(state.lesson))
    lesson_step(look, state, book, *lesson, fault, field);
  else if (book.list) {
    ImGui::BeginChild("list of lessons");
    list_of_lessons(look, state, book);
    ImGui::EndChild();
  }
  end_panel();
  return field.is_there;
}

}  // namespace flashscope::viz
