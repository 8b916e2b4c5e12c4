#include "viz/core/snapshot.h"

#include <algorithm>
#include <exception>

#include "sim/schedule/algorithms.h"
#include "viz/core/byte_table.h"
#include "viz/core/memory_curve.h"
#include "viz/core/occupancy_table.h"
#include "viz/core/roofline.h"
#include "viz/core/scene.h"
#include "viz/core/state_token.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"
#include "viz/io/trace_export.h"

namespace flashscope::viz {
namespace {

const Machine* machine_of(const Session& session, const std::string& gpu) {
  for (const Machine& machine : session.machines())
    if (machine.name == gpu) return &machine;
  return nullptr;
}

Sheet numbers_sheet(const Results& results, const Session& session) {
  Sheet sheet{{"algorithm", "quantity", "predicted", "measured", "measured_from"}, {}};
  const auto cell = [](const kernels::Measured<double>& m) {
    return m.value ? number_text(*m.value) : "unavailable (" + m.reason + ")";
  };
  for (std::size_t side = 0; side < 2; ++side) {
    if (!results.whole[side]) continue;
    const Comparison table =
        compare(results.settings, results.settings.algorithms[side], *results.whole[side], session.recordings());
    for (const ComparisonRow& row : table.rows)
      sheet.rows.push_back({table.algorithm, row.label, cell(row.predicted), cell(row.measured), table.measured_from});
  }
  return sheet;
}

Json scene_json(const StageTrace& trace, Picoseconds t) {
  const Scene scene = make_scene(trace, t, 2);
  Json object = {{"algorithm", trace.schedule().algorithm()},
                 {"finished", scene.finished},
                 {"kernel", scene.kernel},
                 {"head", scene.head},
                 {"busy_sms", scene.busy_sms},
                 {"ctas_done", scene.grid.done},
                 {"sm_read_bytes", scene.moved.sm_read},
                 {"sm_write_bytes", scene.moved.sm_write},
                 {"hbm_read_bytes", scene.moved.hbm_read},
                 {"hbm_write_bytes", scene.moved.hbm_write}};
  Json sms = Json::array();
  for (const SmView& sm : scene.sms)
    for (const CtaView& cta : sm.ctas) {
      Json tiles = Json::array();
      for (const HeldTile& tile : cta.tiles) tiles.push_back(tile.name);
      sms.push_back(Json{{"sm", sm.sm}, {"cta", cta.cta}, {"doing", cta.doing}, {"tiles", tiles}});
    }
  object["ctas"] = sms;
  return object;
}

}  // namespace

std::string seen_as_csv(const AppState& state, const Results& results, const Session& session) {
  const Settings& s = results.settings;
  if (state.view == View::validate) return results.validation ? csv_of(sheet_of(*results.validation)) : "";
  try {
    switch (state.inspector) {
      case Inspector::numbers: return csv_of(numbers_sheet(results, session));
      case Inspector::bytes: return csv_of(sheet_of(byte_table(s, results.whole), s));
      case Inspector::roofline:
        if (const Machine* machine = machine_of(session, s.gpu))
          return csv_of(roofline_figure(s, *machine, results.whole, session.recordings()));
        return "";
      case Inspector::sweep:
        return results.sweep ? csv_of(sweep_figure(*results.sweep, state.sweep.show, session.recordings())) : "";
      case Inspector::softmax: return csv_of(sheet_of(softmax_steps(state.softmax)));
      case Inspector::occupancy: {
        const Machine* machine = machine_of(session, s.gpu);
        if (!machine) return "";
        std::vector<OccupancyRow> rows;
        for (const std::string& algorithm : s.algorithms)
          for (OccupancyRow& row : occupancy_table(*make_schedule(algorithm, s.problem, s.tile), *machine))
            rows.push_back(std::move(row));
        return csv_of(sheet_of(rows));
      }
      case Inspector::memory: {
        const MemoryCurve curve = memory_curve(s, session.machines());
        return csv_of(curve.figure) + "\n" + csv_of(sheet_of(curve, s));
      }
      case Inspector::source: return "";  // text already: kernels/forward
    }
  } catch (const std::exception&) {  // settings that no schedule can be made of: the panel says why
  }
  return "";
}

std::string snapshot_json(const AppState& state, const Results& results, const Session& session) {
  AppState still = state;
  still.playback.playing = false;
  Json document = {{"state", token_of(still)},
                   {"view", entry_of(views(), state.view).key},
                   {"inspector", entry_of(inspectors(), state.inspector).key},
                   {"t_ps", state.playback.t},
                   {"duration_ps", results.duration},
                   {"stage_problem", problem_to_json(results.stage_problem)}};
  Json stages = Json::array();
  for (std::size_t side = 0; side < 2; ++side)
    stages.push_back(results.stage[side] ? scene_json(*results.stage[side], state.playback.t)
                                         : Json{{"unavailable", results.errors[side]}});
  document["stages"] = stages;
  Json rows = Json::array();
  for (const auto& row : numbers_sheet(results, session).rows)
    rows.push_back(Json{{"algorithm", row[0]}, {"quantity", row[1]}, {"predicted", row[2]}, {"measured", row[3]}});
  document["numbers"] = rows;
  return json_text(document);
}

std::string stage_as_trace(const AppState& state, const Results& results) {
  std::string text;
  const auto& stage = results.stage[static_cast<std::size_t>(state.side)];
  if (!stage) return text;
  ChromeTraceWriter writer(stage->schedule(), stage->machine().name, [&](std::string_view bytes) { text += bytes; });
  for (const OpSpan& span : stage->spans()) writer.span(span);
  writer.finish();
  return text;
}

}  // namespace flashscope::viz
