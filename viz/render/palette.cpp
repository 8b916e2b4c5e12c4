#include "viz/render/palette.h"

#include <cmath>
#include <string>

namespace flashscope::viz {

Color mixed(Color a, Color b, double share) {
  Color out = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const double channel = share * (a >> shift & 0xFF) + (1 - share) * (b >> shift & 0xFF);
    out |= static_cast<Color>(channel + 0.5) << shift;
  }
  return out;
}

double lightness(Color color) {
  const auto linear = [](Color channel) {
    const double c = (channel & 0xFF) / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  const double y = 0.2126 * linear(color) + 0.7152 * linear(color >> 8) + 0.0722 * linear(color >> 16);
  return y > 0.008856 ? 116 * std::cbrt(y) - 16 : 903.3 * y;
}

namespace {

/// Tensors that the lists below do not name: a gradient, a split's part, a copy in fp8 and its scale have the colour of
/// their tensor, statistics that of LSE.
Palette complete(Palette p) {
  for (int t = 0; t < kNumTensors; ++t) {
    Color& color = p.tensors[static_cast<std::size_t>(t)];
    if (color != 0) continue;
    const std::string name = name_of(static_cast<Tensor>(t));
    color = p.of(Tensor::LSE);
    for (int base = 0; base < t; ++base) {
      const std::string tensor = name_of(static_cast<Tensor>(base));
      if (name == "d" + tensor || name.rfind(tensor + "_", 0) == 0) color = p.tensors[static_cast<std::size_t>(base)];
    }
  }
  return p;
}

}  // namespace

const Palette& palette(Theme theme) {
  // Tensors in the order Q K V S P O LSE M L, the rest by complete(); reasons in the order hbm l2 smem tensor fma exp
  // barrier launch idle.
  static const Palette light = {rgb(0xE9ECF0),
                                rgb(0xF7F8FA),
                                rgb(0xFFFFFF),
                                rgb(0x14181E),
                                rgb(0x59626E),
                                rgb(0xC6CCD4),
                                rgb(0xDDE2E8),
                                rgb(0x14181E),
                                rgb(0x1B7F3B),
                                rgb(0x9A4B00),
                                rgb(0x582873),
                                rgb(0x006976),
                                {rgb(0x00559F), rgb(0xBE3F16), rgb(0x068D6F), rgb(0xEA8815), rgb(0xDFCE3F),
                                 rgb(0xD163B9), rgb(0x363C43), rgb(0x363C43), rgb(0x363C43)},
                                {rgb(0xB30D35), rgb(0x776F58), rgb(0x8F74D2), rgb(0xAAE8C1), rgb(0x7FCA59),
                                 rgb(0x00A5BD), rgb(0xAEA697), rgb(0xC3C8CF), rgb(0xE8EBEF)}};
  static const Palette dark = {rgb(0x0D1014),
                               rgb(0x171B21),
                               rgb(0x1E232B),
                               rgb(0xECEFF3),
                               rgb(0x9AA4B1),
                               rgb(0x3A424D),
                               rgb(0x2C333D),
                               rgb(0xFFFFFF),
                               rgb(0x5FD38A),
                               rgb(0xFFB454),
                               rgb(0xA47BF5),
                               rgb(0x99C9CF),
                               {rgb(0x007AD1), rgb(0xF06031), rgb(0x07B992), rgb(0xFFB872), rgb(0xF1F096),
                                rgb(0xE99CE0), rgb(0xF2F7FC), rgb(0xF2F7FC), rgb(0xF2F7FC)},
                               {rgb(0xDC2D4B), rgb(0x989078), rgb(0xAD93E3), rgb(0xC5F0D0), rgb(0x9AE174),
                                rgb(0x16CBE2), rgb(0x7C828D), rgb(0x454A4F), rgb(0x2E3133)}};
  // The safe ones keep at least 25 units of CIE Lab between any two tensors and 11 between any two reasons for normal,
  // protanopic, deuteranopic and tritanopic eyes, and 10 between a tensor, a reason and a side of a plot; found by search.
  static const Palette light_safe = {rgb(0xE9ECF0),
                                     rgb(0xF7F8FA),
                                     rgb(0xFFFFFF),
                                     rgb(0x14181E),
                                     rgb(0x59626E),
                                     rgb(0xC6CCD4),
                                     rgb(0xDDE2E8),
                                     rgb(0x14181E),
                                     rgb(0x0B6E99),
                                     rgb(0x8A4B00),
                                     rgb(0x3552B1),
                                     rgb(0xDF680F),
                                     {rgb(0x283E73), rgb(0xC30E00), rgb(0x00936C), rgb(0xE0B707), rgb(0xC9E890),
                                      rgb(0xF95CEF), rgb(0x363C43), rgb(0x363C43), rgb(0x363C43)},
                                     {rgb(0x9B2338), rgb(0x596501), rgb(0xB144D9), rgb(0xB5E4B8), rgb(0x3F9EE1),
                                      rgb(0x4BC0DE), rgb(0x848A91), rgb(0xC6C9CD), rgb(0xF1F3F6)}};
  static const Palette dark_safe = {rgb(0x0D1014),
                                    rgb(0x171B21),
                                    rgb(0x1E232B),
                                    rgb(0xECEFF3),
                                    rgb(0x9AA4B1),
                                    rgb(0x3A424D),
                                    rgb(0x2C333D),
                                    rgb(0xFFFFFF),
                                    rgb(0x6EC6E8),
                                    rgb(0xFFB454),
                                    rgb(0x059DFF),
                                    rgb(0xFFE76F),
                                    {rgb(0x1D6EE0), rgb(0xDD6A36), rgb(0x02BC8C), rgb(0xE6C426), rgb(0xE4F48F),
                                     rgb(0xFF89EA), rgb(0xF2F7FC), rgb(0xF2F7FC), rgb(0xF2F7FC)},
                                    {rgb(0xFF675B), rgb(0x6E7CB1), rgb(0x9F79D4), rgb(0xAADD87), rgb(0xBCE2FF),
                                     rgb(0x00D3CE), rgb(0x666B76), rgb(0x3F4449), rgb(0x262829)}};
  static const Palette completed[] = {complete(light), complete(dark), complete(light_safe), complete(dark_safe)};
  return completed[static_cast<std::size_t>(theme)];
}

}  // namespace flashscope::viz
