#include "viz/render/palette.h"

#include <cmath>

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

const Palette& palette(Theme theme) {
  // Tensors in the order Q K V S P O LSE M L dO dQ dK dV dP dS D: a gradient has the colour of its tensor. Reasons in the order hbm l2 smem tensor fma exp barrier launch idle.
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
                                {rgb(0x00559F), rgb(0xBE3F16), rgb(0x068D6F), rgb(0xEA8815), rgb(0xDFCE3F),
                                 rgb(0xD163B9), rgb(0x363C43), rgb(0x363C43), rgb(0x363C43), rgb(0xD163B9),
                                 rgb(0x00559F), rgb(0xBE3F16), rgb(0x068D6F), rgb(0xDFCE3F), rgb(0xEA8815),
                                 rgb(0x363C43)},
                                {rgb(0xB30D35), rgb(0x776F58), rgb(0x8F74D2), rgb(0xAAE8C1), rgb(0x7FCA59),
                                 rgb(0x00A5BD), rgb(0x9EA7B0), rgb(0xC3C8CF), rgb(0xE8EBEF)}};
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
                               {rgb(0x007AD1), rgb(0xF06031), rgb(0x07B992), rgb(0xFFB872), rgb(0xF1F096),
                                rgb(0xE99CE0), rgb(0xF2F7FC), rgb(0xF2F7FC), rgb(0xF2F7FC), rgb(0xE99CE0),
                                rgb(0x007AD1), rgb(0xF06031), rgb(0x07B992), rgb(0xF1F096), rgb(0xFFB872),
                                rgb(0xF2F7FC)},
                               {rgb(0xDC2D4B), rgb(0x989078), rgb(0xAD93E3), rgb(0xC5F0D0), rgb(0x9AE174),
                                rgb(0x16CBE2), rgb(0x5C646D), rgb(0x454A4F), rgb(0x2E3133)}};
  return theme == Theme::dark ? dark : light;
}

}  // namespace flashscope::viz
