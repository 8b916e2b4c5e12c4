#include "viz/app/workspace.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "sim/schedule/algorithms.h"
#include "viz/app/learn_view.h"
#include "viz/core/lesson_follow.h"
#include "viz/core/lesson_show.h"
#include "viz/core/roofline.h"
#include "viz/core/stage_caption.h"
#include "viz/core/text.h"
#include "viz/panels/lesson.h"
#include "viz/panels/panels.h"

namespace flashscope::viz {
namespace {

/// The tensors of both stages, in the order of the first that has them.
std::vector<Tensor> tensors_of_both(const Results& results) {
  std::vector<Tensor> order;
  for (int t = 0; t < kNumTensors; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    const bool any = std::any_of(results.stage.begin(), results.stage.end(), [&](const auto& stage) {
      if (!stage) return false;
      const auto& tensors = stage->schedule().tensors();
      // Scores have a place also where they stay on chip, and beside it the probabilities of the forward pass.
      const bool ghost =
          stage->scores_stay_on_chip() &&
          (tensor == Tensor::S || (tensor == Tensor::P && stage->schedule().problem().pass == Pass::forward));
      return ghost || std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
    });
    if (any) order.push_back(tensor);
  }
  return order;
}

/// A telephone, a screen on its side: panels one below the other.
bool is_tall(const Rect& window) { return window.h > window.w; }

/// Where the panels of the Explore view stand. Whole pixels, so that neighbours meet.
struct ExploreLayout {
  Rect controls, caption, stages[2], inspector, timeline;
  bool one_stage = false;  // the wide inspector has the place of the other
};

ExploreLayout explore_layout(const Ui& ui, const Rect& window, const Rect& area, const AppState& state) {
  const auto whole = [](float length) { return std::floor(length); };
  const bool projector = state.looks.projector;
  const bool wide = is_wide(state.inspector);
  const float least_stage = ui.px(280);
  const float gap = std::max(1.0f, whole(ui.px(6)));
  ExploreLayout layout;
  layout.one_stage = wide;
  // In a low window the stage needs its height most.
  const float bottom_h = whole(std::min(ui.px(projector || area.h < ui.px(580) ? 106 : 142), area.h * 0.3f));
  const float top_h = area.h - bottom_h - gap;
  const float left_w = projector ? 0 : whole(ui.px(190)) + gap;
  float right_w = projector && !wide ? 0 : whole(ui.px(300));
  const float caption_h = whole(ui.px(22));
  const float x = area.x + left_w, w = area.w - left_w;
  if (state.tall_timeline) {  // the timeline takes the place of all but the controls
    layout.controls = {area.x, area.y, left_w - gap, area.h};
    layout.timeline = {area.x + left_w, area.y, area.w - left_w, area.h};
    return layout;
  }
  layout.controls = {area.x, area.y, left_w - gap, top_h};
  layout.timeline = {area.x, area.y + top_h + gap, area.w, bottom_h};
  if (is_tall(window)) {  // stages above; below them the controls beside a narrow inspector, or a wide one alone
    const float caption_y = area.y + caption_h, most_h = layout.timeline.y - 3 * gap - caption_y;
    // What is below scrolls where a small screen has no room for it and for a stage.
    const float below_h = projector && !wide
                              ? 0
                              : whole(std::min(ui.px(530), std::max(most_h - ui.px(wide ? 320 : 400), most_h * 0.35f)));
    const float y = layout.timeline.y - gap - below_h, narrow_w = whole((area.w - gap) / 2);
    if (narrow_w < least_stage) layout.one_stage = true;
    const float stage_h = (below_h > 0 ? y - gap : y) - caption_y;
    layout.caption = {area.x + ui.px(4), area.y, area.w - ui.px(8), caption_h};
    layout.stages[0] = {area.x, caption_y, layout.one_stage ? area.w : narrow_w, stage_h};
    layout.stages[1] = {area.x + narrow_w + gap, caption_y, narrow_w, stage_h};
    const float controls_w = wide ? 0 : whole(ui.px(190)) + gap;
    layout.controls = {area.x, y, controls_w - gap, below_h};
    layout.inspector = {area.x + controls_w, y, area.w - controls_w, below_h};
    return layout;
  }
  if (wide && w < 2 * least_stage + gap) {  // room for the inspector alone
    layout.inspector = {x, area.y, w, top_h};
    return layout;
  }
  if (!wide && right_w > 0 && w - right_w - gap < least_stage) right_w = 0;
  const float center_w = w - (right_w > 0 ? right_w + gap : 0);
  // There may be room for one stage only, as beside a wide inspector.
  const bool narrow = !wide && (center_w - gap) / 2 < least_stage;
  if (narrow) layout.one_stage = true;
  const float stage_w = whole(narrow ? center_w : wide && projector ? w * 0.42f : (center_w - gap) / 2);
  layout.caption = {x + ui.px(4), area.y, (wide ? stage_w : center_w) - ui.px(8), caption_h};
  layout.stages[0] = {x, area.y + caption_h, stage_w, top_h - caption_h};
  layout.stages[1] = {x + stage_w + gap, area.y + caption_h, stage_w, top_h - caption_h};
  if (wide)
    layout.inspector = {x + stage_w + gap, area.y, w - stage_w - gap, top_h};
  else if (right_w > 0)
    layout.inspector = {area.right() - right_w, area.y, right_w, top_h};
  return layout;
}

class Workspace {
 public:
  Workspace(const Ui& ui, const Rect& window, const AppState& state, const Session& session, const Results& results,
            const std::string& notice, const LessonBook* book, bool answering)
      : m_ui(ui),
        m_window(window),
        m_session(session),
        m_results(results),
        m_notice(notice),
        m_book(book),
        m_answering(answering) {
    m_frame.state = state;
    if (!results.live || !results.live->recording) return;
    // What was measured here just now goes before what is shipped.
    m_with_live.push_back(*results.live->recording);
    m_with_live.insert(m_with_live.end(), session.recordings().begin(), session.recordings().end());
    m_recordings = &m_with_live;
  }

  FrameResult draw() {
    const float gap = std::max(1.0f, std::floor(m_ui.px(6)));
    const float bar_h = std::floor(m_ui.px(is_tall(m_window) && m_frame.state.view == View::explore ? 64 : 32));
    press(top_bar_panel(m_ui, {m_window.x, m_window.y, m_window.w, bar_h}, m_frame.state));
    const Rect body = {m_window.x, m_window.y + bar_h + gap, m_window.w, m_window.h - bar_h - gap};
    if (!body.empty()) switch (m_frame.state.view) {
        case View::explore: explore(body); break;
        case View::validate: validate_view(body); break;
        case View::learn: learn(body); break;
      }
    help_panel(m_ui, m_window, m_frame.state);
    notice();
    m_frame.holding = ImGui::IsAnyItemActive();
    return m_frame;
  }

 private:
  /// What was saved, copied or went wrong: above everything, at the bottom.
  void notice() {
    if (m_notice.empty()) return;
    ImDrawList* list = ImGui::GetForegroundDrawList();
    const float w = std::min(text_width(m_ui.fonts.body, m_notice) + m_ui.px(28), m_window.w), h = m_ui.px(30);
    const Rect box = {m_window.x + (m_window.w - w) / 2, m_window.bottom() - h - m_ui.px(10), w, h};
    fill(list, box, m_ui.colors->box, m_ui.px(6));
    outline(list, box, m_ui.colors->warning, m_ui.px(6), m_ui.px(1.5f));
    draw_text(m_ui, list, m_ui.fonts.body, box.x + m_ui.px(14), box.y + m_ui.px(6), w - m_ui.px(28), m_ui.colors->text,
              m_notice);
  }

  void press(const std::optional<Action>& action) {
    if (!action) return;
    m_frame.state = apply(*action, m_frame.state, m_results);
    m_frame.actions.push_back(*action);
  }
  void answer(Request request) {
    m_frame.confirm = m_frame.confirm || request == Request::confirm;
    m_frame.cancel = m_frame.cancel || request == Request::cancel;
    m_frame.measure = m_frame.measure || request == Request::measure;
    m_frame.resume = m_frame.resume || request == Request::resume;
  }
  const Machine* machine(const std::string& gpu) const {
    for (const Machine& m : m_session.machines())
      if (m.name == gpu) return &m;
    return nullptr;
  }
  const Machine* machine() const { return machine(m_results.settings.gpu); }

  void explore(const Rect& body) {
    AppState& state = m_frame.state;
    const ExploreLayout layout = explore_layout(m_ui, m_window, body, state);
    if (!layout.controls.empty()) controls_panel(m_ui, layout.controls, state, m_session.machines());

    if (layout.caption.h > 0)
      caption(layout.caption, state.looks.projector ? problem_caption(m_results)
                              : !layout.one_stage   ? stage_caption(m_results, state.stage_level)
                              : is_wide(state.inspector)
                                  ? "S: the other algorithm. 1: both stages."
                                  : "S: the other algorithm. " + stage_caption(m_results, state.stage_level));
    const std::vector<Tensor> order = tensors_of_both(m_results);
    if (state.tall_timeline) {
    } else if (layout.one_stage) {
      if (!layout.stages[0].empty()) stage(layout.stages[0], static_cast<std::size_t>(state.side), order);
    } else {
      stage(layout.stages[0], 0, order);
      stage(layout.stages[1], 1, order);
    }
    if (!layout.inspector.empty()) inspector(state.inspector, layout.inspector);

    // The stage may be the whole of a recorded problem: its measured time then stands on the same axis.
    std::array<std::optional<double>, 2> recorded;
    Settings drawn = m_results.settings;
    drawn.problem = m_results.stage_problem;
    for (std::size_t side = 0; side < 2; ++side)
      if (const RecordingRow* row = recorded_row(drawn, drawn.algorithms[side], *m_recordings))
        recorded[side] = row->measured.time_us.value;
    press(timeline_panel(m_ui, layout.timeline, state, m_results, recorded));
  }

  /// As many of its sentences, or of the parts of its only one, as have room.
  void caption(const Rect& area, std::string text) {
    for (const std::string between : {". ", " · "})
      while (text_width(m_ui.fonts.small, text) > area.w && text.rfind(between) != std::string::npos)
        text.erase(text.rfind(between) + (between[0] == '.' ? 1 : 0));
    draw_text(m_ui, ImGui::GetBackgroundDrawList(), m_ui.fonts.small, area.x, area.y + m_ui.px(4), area.w,
              m_ui.colors->text_dim, text);
  }

  /// The inspector that a step of a lesson has in place of the stage.
  void show_inspector(const LessonShow& show, const Rect& area) {
    using Panel = LessonShow::Panel;
    if (show.panel == Panel::softmax) return inspector(Inspector::softmax, area);
    if (show.panel == Panel::roofline) return inspector(Inspector::roofline, area);
    if (show.panel == Panel::memory) return inspector(Inspector::memory, area);
    if (show.panel == Panel::sweep) return inspector(Inspector::sweep, area);
    try {
      const std::vector<OccupancyRow> rows = occupancy_of(*m_book->open, show);
      if (const Machine* gpu = machine(m_book->open->runs.at(show.runs[0]).settings->gpu))
        occupancy_panel(m_ui, area, *gpu, rows);
    } catch (const std::exception& error) {
      inspector_message(m_ui, area, "Occupancy", error.what());
    }
  }

  void lesson(const Rect& area, const std::string& fault) {
    m_frame.question_waits = lesson_panel(m_ui, area, m_frame.state.learn, *m_book, fault, m_answering);
  }

  /// A lesson on the left, what its step shows on the right, one clock below.
  void learn(Rect body) {
    if (!m_book) return;
    AppState& state = m_frame.state;
    if (const Lesson* lesson = m_book->find(state.learn.lesson)) {  // whose step may come from a link
      const int step = state.learn.step;
      state.learn = go_to_step(std::move(state.learn), *lesson, step);
    }
    const FollowedShow followed =
        follow_lesson(state.learn, m_book->open.get(), state.settings, state.playback, state.softmax, m_results);
    look_as_shown(state, *m_book, followed, m_results);
    const auto whole = [](float length) { return std::floor(length); };
    const float gap = std::max(1.0f, whole(m_ui.px(6)));
    if (!followed.show) {  // text alone has a comfortable width, in the middle
      const float w = whole(std::min(body.w, m_ui.px(720)));
      return lesson({body.x + whole((body.w - w) / 2), body.y, w, body.h}, "");
    }
    float text_w = whole(std::min(body.w * 0.42f, m_ui.px(520)));
    if (is_tall(m_window)) {  // the lesson above, the stage below
      const float text_h = whole(body.h * 0.48f);
      lesson({body.x, body.y, body.w, text_h}, followed.fault);
      body = {body.x, body.y + text_h + gap, body.w, body.h - text_h - gap};
      text_w = -gap;
    } else {
      lesson({body.x, body.y, text_w, body.h}, followed.fault);
    }
    const float x = body.x + text_w + gap, w = body.right() - x;
    if (!followed.show->has_stage()) return show_inspector(*followed.show, {x, body.y, w, body.h});
    if (state.tall_timeline)  // in place of the stage, as in Explore
      return press(timeline_panel(m_ui, {x, body.y, w, body.h}, state, m_results, {}));
    const std::size_t sides = followed.show->runs.size();
    const float bottom_h = whole(std::min(m_ui.px(sides == 1 ? 92 : 112), body.h * 0.25f));
    const float caption_h = whole(m_ui.px(20));
    const Rect above = {x, body.y + caption_h, w, body.h - caption_h - bottom_h - gap};
    const float table_w = followed.show->panel == LessonShow::Panel::bytes ? whole(m_ui.px(300)) + gap : 0;
    // There may be room for one stage only: at first that of the run which the show names last.
    const bool one = sides == 1 || (w - table_w - gap) / 2 < m_ui.px(280);
    const std::string switches = one && sides == 2 ? "S: the other algorithm. " : "";
    caption({x + m_ui.px(4), body.y, w - m_ui.px(8), caption_h},
            switches + stage_caption(m_results, state.stage_level, sides == 2));
    const float stage_w = one ? w - table_w : whole((w - table_w - gap) / 2);
    const std::vector<Tensor> order = tensors_of_both(m_results);
    const std::size_t first = one && sides == 2 ? static_cast<std::size_t>(state.side) : 0;
    for (std::size_t side = first; side < (one ? first + 1 : sides); ++side) {
      const Rect place = {x + (one ? 0 : static_cast<float>(side) * (stage_w + gap)), above.y, stage_w, above.h};
      // While a new stage is computed the old one would answer another step.
      if (m_results.settings == state.settings)
        stage(place, side, order);
      else
        stage_message(m_ui, place, side == 0 ? "stage 0" : "stage 1", state.settings.algorithms[side], "computing …");
    }
    if (table_w > 0)
      answer(comparison_panel(m_ui, {above.right() - table_w + gap, above.y, table_w - gap, above.h}, m_results,
                              comparisons()));
    press(timeline_panel(m_ui, {x, body.bottom() - bottom_h, w, bottom_h}, state, m_results, {}));
  }

  /// The wheel over a stage looks closer or farther, as Z and Shift+Z do.
  void zoom_stage(const Rect& area) {
    const ImGuiIO& io = ImGui::GetIO();
    if (io.MouseWheel == 0 || m_frame.state.show_help || ImGui::IsAnyItemActive() ||
        !ImGui::IsMouseHoveringRect({area.x, area.y}, {area.right(), area.bottom()}, false) || is_covered())
      return;
    press(Action(io.MouseWheel > 0 ? Command::stage_closer : Command::stage_farther));
  }

  void stage(const Rect& area, std::size_t side, const std::vector<Tensor>& order) {
    zoom_stage(area);
    static const char* names[] = {"stage 0", "stage 1"};
    const AppState& state = m_frame.state;
    const auto& trace = m_results.stage[side];
    if (trace) {
      // Beside a wide inspector in a small window one SM has room, and is drawn as it is beside another.
      const bool one_sm = area.w < m_ui.px(260) && state.stage_level < kWholeGpu;
      const int level = one_sm ? 1 : state.stage_level;
      stage_panel(m_ui, area, names[side], *trace,
                  make_scene(*trace, state.playback.t, one_sm ? 1 : sms_at_level(level)), order, level,
                  m_results.stage[1 - side].get());
      if (is_stale()) veil_panel(m_ui, names[side], area, "computing …");
    } else
      stage_message(m_ui, area, names[side], state.settings.algorithms[side],
                    m_results.errors[side].empty() ? "computing …" : m_results.errors[side]);
  }

  /// What is drawn belongs to settings that are no longer those chosen.
  bool is_stale() const {
    const Settings& chosen = m_frame.state.settings;
    return m_results.settings != chosen && m_results.settings != clamp(chosen);
  }

  /// Of both sides; where they are one run, as in a lesson that shows one, of that.
  std::vector<Comparison> comparisons() const {
    std::vector<Comparison> list;
    const std::size_t sides = m_results.settings.algorithms[0] == m_results.settings.algorithms[1] ? 1 : 2;
    for (std::size_t side = 0; side < sides; ++side)
      if (m_results.whole[side])
        list.push_back(
            compare(m_results.settings, m_results.settings.algorithms[side], *m_results.whole[side], *m_recordings));
    return list;
  }

  /// Numbers come from the settings that the results are of, which lag behind while a slider moves.
  void inspector(Inspector which, const Rect& area) {
    AppState& state = m_frame.state;
    const Settings& settings = m_results.settings;
    const auto& entry = entry_of(inspectors(), which);
    try {
      switch (which) {
        case Inspector::numbers:
          answer(comparison_panel(m_ui, area, m_results, comparisons()));
          if (is_stale()) veil_panel(m_ui, "comparison", area, "computing …");
          return;
        case Inspector::bytes: {
          const ByteTable table = byte_table(settings, m_results.whole);
          if (table.rows.empty()) break;
          return bytes_panel(m_ui, area, state, table, comparisons());
        }
        case Inspector::roofline:
          if (!machine()) break;
          return roofline_panel(m_ui, area, roofline_figure(settings, *machine(), m_results.whole, *m_recordings));
        case Inspector::sweep:
          if (!m_results.sweep) break;
          return answer(sweep_panel(m_ui, area, state, sweep_figure(*m_results.sweep, state.sweep.show, *m_recordings),
                                    m_results.sweep_progress, m_results.sweep->to_come > 0));
        case Inspector::softmax: return softmax_panel(m_ui, area, state, softmax_steps(state.softmax));
        case Inspector::occupancy: {
          if (!machine()) break;
          std::vector<OccupancyRow> rows;
          for (std::size_t side = 0; side < 2; ++side) {
            if (side == 1 && settings.algorithms[0] == settings.algorithms[1]) break;
            for (OccupancyRow& row : occupancy_table(
                     *make_schedule(settings.algorithms[side], settings.problem, settings.tile), *machine()))
              rows.push_back(std::move(row));
          }
          return occupancy_panel(m_ui, area, *machine(), rows);
        }
        case Inspector::source: return source(area);
        case Inspector::memory: return memory_panel(m_ui, area, memory_curve(settings, m_session.machines()), settings);
      }
    } catch (const std::exception& error) {
      return inspector_message(m_ui, area, entry.title, error.what());
    }
    std::string why = "computing …";
    for (std::size_t side = 0; side < 2; ++side) {
      if (!m_results.errors[side].empty()) why = m_results.errors[side];
      if (m_results.whole[side] && !m_results.whole[side]->prediction.value)
        why = settings.algorithms[side] + ": " + m_results.whole[side]->prediction.reason;
    }
    inspector_message(m_ui, area, entry.title, why);
  }

  /// The kernel of the stage in front, at what the first CTA of SM 0 does.
  void source(const Rect& area) {
    const AppState& state = m_frame.state;
    const auto& trace = m_results.stage[static_cast<std::size_t>(state.side)];
    const std::string& algorithm = m_results.settings.algorithms[static_cast<std::size_t>(state.side)];
    const SourceFile file = source_of(algorithm, m_results.settings.problem.pass);
    if (file.lines.empty())
      return inspector_message(m_ui, area, "Source", algorithm + " has no kernel of its own in this build");
    if (!trace || trace->tracks().empty()) return inspector_message(m_ui, area, "Source", "computing …");
    const OpSpan* span = trace->last_begun(trace->tracks().front(), state.playback.t);
    if (!span) span = &trace->spans().front();
    const std::string kernel = trace->schedule().kernels()[static_cast<std::size_t>(span->kernel)].name;
    SourcePlace place = source_place(file, kernel, span->op);
    if (span->op.op == Op::barrier && span->reason != Reason::launch) {  // which no line reports
      const auto [first, last] = trace->cta_of(*span);
      const OpSpan* before = span;
      while (before != first && before->op.op == Op::barrier) --before;
      place = barrier_after(file, source_place(file, kernel, before->op));
    }
    source_panel(m_ui, area, file, place, what_happens(*trace, *span));
  }

  void validate_view(const Rect& body) {
    AppState& state = m_frame.state;
    static const Validation nothing;
    const Validation& validation = m_results.validation ? *m_results.validation : nothing;
    const ValidateAnswer got = validate_panel(m_ui, body, state, validation, m_results.validation_progress);
    answer(got.request);
    if (!got.chosen) return;
    for (const Recording& recording : m_session.recordings()) {
      if (recording.machine != validation.machine) continue;
      const RecordingRow& row = recording.rows[*got.chosen];
      state.settings.problem = row.problem;
      state.settings.tile = row.tile;
      state.settings.start = row.start;
      // The row's algorithm takes the right-hand side, unless it stands there or at the left already.
      if (row.algorithm != state.settings.algorithms[0]) state.settings.algorithms[1] = row.algorithm;
      state.side = row.algorithm == state.settings.algorithms[1] ? 1 : 0;
      state.settings = clamp(state.settings);
      state.view = View::explore;
      state.inspector = Inspector::numbers;
      break;
    }
  }

  const Ui& m_ui;
  const Rect m_window;
  const Session& m_session;
  const Results& m_results;
  const std::string& m_notice;
  const LessonBook* m_book;
  const bool m_answering;
  std::vector<Recording> m_with_live;
  const std::vector<Recording>* m_recordings =
      &m_session.recordings();  // of thousands of numbers: not copied for a frame
  FrameResult m_frame;
};

}  // namespace

FrameResult draw_workspace(const Ui& ui, const Rect& window, const AppState& state, const Session& session,
                           const Results& results, const std::string& notice, const LessonBook* book, bool answering) {
  if (window.empty()) {
    FrameResult nothing;
    nothing.state = state;
    return nothing;
  }
  return Workspace(ui, window, state, session, results, notice, book, answering).draw();
}

}  // namespace flashscope::viz
