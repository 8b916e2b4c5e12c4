#include "viz/core/window_words.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::viz {
namespace {

bool runs(const Settings& s, std::size_t side, TileShape tile, const Machine& machine) {
  try {
    const auto schedule = make_schedule(s.algorithms[side], s.problem, tile);
    const auto& kernels = schedule->kernels();
    return std::all_of(kernels.begin(), kernels.end(), [&](const KernelLaunch& launch) {
      return occupancy(launch.resources, machine).ctas_per_sm > 0;
    });
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string in_window_words(const std::string& text) {
  static const std::map<std::string, std::string> names = {{"br", "Br"},
                                                           {"bc", "Bc"},
                                                           {"head-dim", "head dim d"},
                                                           {"kv-heads", "KV heads"},
                                                           {"seqlen-q", "seqlen N"},
                                                           {"seqlen-k", "seqlen N"},
                                                           {"cu-seqlens", "sequences"},
                                                           {"cu-seqlens-k", "sequences"},
                                                           {"gpu", "GPU"},
                                                           {"stages", "K/V stages"}};
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool option =
        text.compare(at, 2, "--") == 0 && at + 2 < text.size() && text[at + 2] >= 'a' && text[at + 2] <= 'z';
    if (!option) {
      out += text[at++];
      continue;
    }
    std::size_t end = at += 2;
    while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '-')) ++end;
    std::string name = text.substr(at, end - at);
    const auto known = names.find(name);
    if (known == names.end()) std::replace(name.begin(), name.end(), '-', ' ');
    out += known == names.end() ? name : known->second;
    at = end;
  }
  return out;
}

std::string name_on_stage(Tensor tensor) {
  switch (tensor) {
    case Tensor::M: return "m";
    case Tensor::L: return "l";
    case Tensor::O_split: return "O parts";
    case Tensor::LSE_split: return "LSE parts";
    case Tensor::block_table: return "pages";
    default: break;
  }
  std::string name = name_of(tensor);
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::optional<TileShape> tile_that_runs(const Settings& s, std::size_t side, const Machine& machine) {
  std::vector<TileShape> tiles;
  for (std::size_t n : {side, 1 - side}) {
    tiles.push_back(algorithm_named(s.algorithms[n], s.problem.pass).default_tile(s.problem));
    tiles.back().splits = s.tile.splits;
    tiles.back().page_size = s.tile.page_size;
  }
  for (int rows : {128, 64, 32, 16}) {
    tiles.push_back(s.tile);
    tiles.back().br = tiles.back().bc = rows;
  }
  for (const TileShape& tile : tiles)
    if (runs(s, side, tile, machine) && runs(s, 1 - side, tile, machine)) return tile;
  for (const TileShape& tile : tiles)
    if (runs(s, side, tile, machine)) return tile;
  return std::nullopt;
}

}  // namespace flashscope::viz
