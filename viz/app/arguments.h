// The command line of flashscope-window: the problem options of every command, and how to draw without a display.
#pragma once
#include <optional>
#include <string>

#include "viz/core/app_state.h"

namespace flashscope::viz {

struct RenderOptions {
  std::string path;  // of the PNG
  int width = 1280, height = 720;
  double scale = 0;           // 0: from the size
  std::optional<double> at;   // share of the longer run; else the clock of the state, or 0.5
  int frames = 0;             // more than 0: that many pictures from the start to the end, path-0001.png …
  std::string snapshot, csv;  // files for the JSON and the CSV of what is seen
};

struct Arguments {
  AppState state;
  std::string lesson;   // as for `flashscope lesson`; "": none
  int step = 0;         // of it, counted from 1; 0: where the learner left
  std::string lessons;  // the user's folder of lessons; "": those shipped
  std::optional<RenderOptions> render;
  bool looks_given = false;   // else those remembered
  bool layout_given = false;  // likewise for what is in front
  bool benchmark = false;     // print what the window costs
  std::string print;          // --help, --version: text to print instead of anything else
};

/// Throws Error(usage) naming the option and its range, Error(input) for a machine file.
Arguments parse_arguments(int argc, const char* const* argv);

}  // namespace flashscope::viz
