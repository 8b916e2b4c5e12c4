// What the library says in the command line's words, said in the window's: its controls have names, not options.
#pragma once
#include <optional>
#include <string>

#include "viz/core/settings.h"

namespace flashscope::viz {

/// "choose a smaller --br, --bc or --head-dim" → "choose a smaller Br, Bc or head dim d"
std::string in_window_words(const std::string& text);

/// How maps, tiles and operations are called on the stage: m and l as in the papers (M is the size of their SRAM),
/// "K fp8", "pages".
std::string name_on_stage(Tensor tensor);

/// A tile in which the algorithm of this side runs on the machine: one that serves both sides where there is one, else
/// its kernel's own; nothing where no tile helps.
std::optional<TileShape> tile_that_runs(const Settings& settings, std::size_t side, const Machine& machine);

}  // namespace flashscope::viz
