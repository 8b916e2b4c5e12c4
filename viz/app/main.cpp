#include <cstdio>
#include <memory>
#include "viz/app/offscreen.h"
#include "viz/io/machine_io.h"
using namespace flashscope;
using namespace flashscope::viz;
int main(int argc, char** argv) {
  std::vector<Machine> machines;
  for (auto& n : machine_names()) machines.push_back(load_machine(n));
  Session session(machines, {});
  AppState state;
  int w = argc > 2 ? atoi(argv[2]) : 1280, h = argc > 3 ? atoi(argv[3]) : 720;
  double t = argc > 4 ? atof(argv[4]) : 0.5;
  if (argc > 5 && argv[5][0] == 'd') state.theme = Theme::dark;
  if (argc > 5 && argv[5][0] == 'c') state.settings.problem.causal = true;
  if (argc > 6) state.settings.problem.seqlen_q = state.settings.problem.seqlen_k = atoi(argv[6]);
  if (argc > 7) state.settings.stage_seqlen = atoi(argv[7]);
  session.request(state.settings);
  const Results& r = session.wait();
  state.playback.t = (Picoseconds)(t * (double)r.duration);
  Offscreen off(w, h, (float)h / 720);
  write_png(argv[1], off.draw(state, session, r));
}
