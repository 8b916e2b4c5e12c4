#include "viz/render/ui.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

namespace flashscope::viz {
namespace {

/// A font's file, read once: a window that changes its size makes its fonts anew.
struct FontFile {
  std::string path, bytes;  // empty: none of the names is in a known font folder
  std::string spoiled;      // of those passed over, the last that was cut off or is no font
};

/// Big-endian, as all numbers of a font file.
std::uint32_t number_at(const std::string& bytes, std::size_t at, int size) {
  std::uint32_t number = 0;
  for (int n = 0; n < size; ++n) number = number << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(n)]);
  return number;
}

/// Whether each table of the font's directory (OpenType specification, "Organization of an OpenType font") lies within the
/// file: ImGui ends the program at one that was cut off.
bool is_whole_font(const std::string& bytes) {
  constexpr std::size_t kHead = 12, kEntry = 16, kOffset = 8, kLength = 12;
  if (bytes.size() < kHead) return false;
  const std::size_t tables = number_at(bytes, 4, 2);
  if (tables == 0 || bytes.size() < kHead + tables * kEntry) return false;
  for (std::size_t table = 0; table < tables; ++table) {
    const std::size_t entry = kHead + table * kEntry;
    if (std::uint64_t{number_at(bytes, entry + kOffset, 4)} + number_at(bytes, entry + kLength, 4) > bytes.size()) return false;
  }
  return true;
}

/// The first of the names that a known font folder has, whole.
FontFile read_font(const std::vector<const char*>& names) {
  static const char* folders[] = {"/usr/share/fonts/opentype/inter/",
                                  "/usr/share/fonts/inter/",
                                  "/usr/share/fonts/truetype/inter/",
                                  "/usr/share/fonts/truetype/jetbrains-mono/",
                                  "/usr/share/fonts/truetype/dejavu/",
                                  "/usr/share/fonts/dejavu/",
                                  "/usr/share/fonts/TTF/",
                                  "/usr/share/fonts/dejavu-sans-fonts/",
                                  "/usr/share/fonts/truetype/noto/",
                                  "/Library/Fonts/",
                                  "/System/Library/Fonts/Supplemental/"};
  FontFile found;
  for (const char* name : names)
    for (const char* folder : folders) {
      const std::string path = std::string(folder) + name;
      std::ifstream file(path, std::ios::binary | std::ios::ate);
      if (!file) continue;
      std::string bytes(static_cast<std::size_t>(file.tellg()), '\0');
      file.seekg(0);
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      if (!file || !is_whole_font(bytes)) {
        found.spoiled = path;
        continue;
      }
      found.path = path;
      found.bytes = std::move(bytes);
      return found;
    }
  return found;
}

const std::vector<const char*> kText = {"Inter-Regular.otf", "Inter-Regular.ttf", "DejaVuSansCondensed.ttf", "DejaVuSans.ttf"};
const std::vector<const char*> kBold = {"Inter-SemiBold.otf", "Inter-SemiBold.ttf", "DejaVuSansCondensed-Bold.ttf",
                                        "DejaVuSans-Bold.ttf"};
const std::vector<const char*> kMono = {"JetBrainsMono-Regular.ttf", "DejaVuSansMono.ttf"};
const std::vector<const char*> kSymbols = {"DejaVuSans.ttf"};

/// `names` beginning with the same one are the same.
const FontFile& font_file(const std::vector<const char*>& names) {
  static std::map<std::string, FontFile> read;
  const auto known = read.find(names.front());
  return known != read.end() ? known->second : read.emplace(names.front(), read_font(names)).first->second;
}

// Latin, Greek letters, punctuation, super- and subscripts, arrows, what formulas are written with, some shapes. Each is
// drawn for each font before the first frame. viz/web/CMakeLists.txt reads them here and cuts the page's fonts down to them.
const ImWchar kRanges[] = {0x0020, 0x00FF, 0x0391, 0x03C9, 0x1D40, 0x1D40, 0x2010, 0x2027, 0x2044, 0x2044, 0x2070, 0x209C,
                           0x2113, 0x2113, 0x2190, 0x2195, 0x21D0, 0x21D4, 0x2200, 0x222B, 0x2248, 0x2248, 0x2260, 0x2265,
                           0x226A, 0x226B, 0x2282, 0x2287, 0x2295, 0x2299, 0x22C5, 0x22C5, 0x22EE, 0x22F1, 0x2308, 0x230B,
                           0x25A0, 0x25A1, 0x25B2, 0x25B3, 0x25B6, 0x25B7, 0x25BC, 0x25BD, 0x25C0, 0x25C1, 0x25C6, 0x25C7,
                           0x25CB, 0x25CB, 0x25CF, 0x25CF, 0x2713, 0x2713, 0x2717, 0x2717, 0};
const ImWchar kDigits[] = {'0', '9', 0};

ImFont* add_font(const std::vector<const char*>& names, float size) {
  ImFontAtlas* atlas = ImGui::GetIO().Fonts;
  const FontFile& text = font_file(names);
  if (text.bytes.empty()) {
    ImFontConfig config;
    config.SizePixels = std::max(13.0f, size);
    return atlas->AddFontDefault(&config);
  }
  // Digits first, each as wide as the widest, so that running counters stand still; then the rest of the same font;
  // then the symbols it lacks from one that has them.
  ImFontConfig digits;
  digits.GlyphMinAdvanceX = digits.GlyphMaxAdvanceX = size * 0.6f;
  digits.OversampleH = 2;
  const auto add = [&](const FontFile& file, ImFontConfig config, const ImWchar* ranges) {
    config.FontDataOwnedByAtlas = false;
    return atlas->AddFontFromMemoryTTF(const_cast<char*>(file.bytes.data()), static_cast<int>(file.bytes.size()), size,
                                       &config, ranges);
  };
  ImFont* font = add(text, digits, kDigits);
  ImFontConfig rest;
  rest.MergeMode = true;
  rest.OversampleH = 2;
  add(text, rest, kRanges);
  const FontFile& symbols = font_file(kSymbols);
  if (!symbols.bytes.empty() && symbols.path != text.path) add(symbols, rest, kRanges);
  return font;
}

}  // namespace

Fonts load_fonts(float scale) {
  const auto size = [&](float units) { return std::round(units * scale); };
  Fonts fonts;
  fonts.body = add_font(kText, size(15));
  fonts.small = add_font(kText, size(13));
  fonts.bold = add_font(kBold, size(15));
  fonts.title = add_font(kBold, size(19));
  fonts.mono = add_font(kMono, size(12.5f));
  return fonts;
}

std::string spoiled_font() {
  for (const auto* names : {&kText, &kBold, &kMono, &kSymbols})
    if (const std::string& path = font_file(*names).spoiled; !path.empty()) return path;
  return "";
}

void apply_style(const Ui& ui) {
  const Palette& c = *ui.colors;
  ImGuiStyle style;
  style.WindowPadding = {ui.px(10), ui.px(8)};
  style.FramePadding = {ui.px(6), ui.px(3)};
  style.ItemSpacing = {ui.px(6), ui.px(4)};
  style.ItemInnerSpacing = {ui.px(5), ui.px(4)};
  style.WindowRounding = 0;
  style.FrameRounding = style.GrabRounding = style.PopupRounding = ui.px(3);
  style.GrabMinSize = ui.px(10);
  style.ScrollbarSize = ui.px(10);
  style.WindowBorderSize = style.FrameBorderSize = 0;
  const auto set = [&](ImGuiCol slot, Color color) { style.Colors[slot] = ImGui::ColorConvertU32ToFloat4(color); };
  set(ImGuiCol_Text, c.text);
  set(ImGuiCol_TextDisabled, c.text_dim);
  set(ImGuiCol_WindowBg, c.panel);
  set(ImGuiCol_PopupBg, c.box);
  set(ImGuiCol_Border, c.line);
  set(ImGuiCol_FrameBg, c.grip);
  set(ImGuiCol_FrameBgHovered, c.line);
  set(ImGuiCol_FrameBgActive, c.line);
  set(ImGuiCol_ScrollbarBg, with_alpha(c.panel, 0));
  set(ImGuiCol_ScrollbarGrab, c.grip);
  set(ImGuiCol_ScrollbarGrabHovered, c.line);
  set(ImGuiCol_ScrollbarGrabActive, c.text_dim);
  set(ImGuiCol_PlotHistogram, mixed(c.text_dim, c.grip, 0.5));
  set(ImGuiCol_SliderGrab, mixed(c.text_dim, c.grip, 0.45));
  set(ImGuiCol_SliderGrabActive, mixed(c.text_dim, c.grip, 0.7));
  set(ImGuiCol_CheckMark, c.accent);
  set(ImGuiCol_Button, c.grip);
  set(ImGuiCol_ButtonHovered, c.line);
  set(ImGuiCol_ButtonActive, c.text_dim);
  set(ImGuiCol_Header, c.grip);
  set(ImGuiCol_HeaderHovered, c.line);
  set(ImGuiCol_HeaderActive, c.line);
  set(ImGuiCol_NavHighlight, c.accent);
  set(ImGuiCol_TextSelectedBg, with_alpha(c.text_dim, 0.4));
  ImGui::GetStyle() = style;
}

float text_width(ImFont* font, const std::string& text) {
  return font->CalcTextSizeA(font->FontSize, 1e9f, 0, text.c_str()).x;
}

float draw_text(const Ui& ui, ImDrawList* list, ImFont* font, float x, float y, float width, Color color,
                const std::string& text, Align align) {
  std::string shown = text;
  float w = text_width(font, shown);
  if (ui.misfits && w > width + 0.5f) ui.misfits->push_back(text);
  while (w > width + 0.5f && !shown.empty()) {
    do shown.pop_back();
    while (!shown.empty() && (shown.back() & 0xC0) == 0x80);  // whole UTF-8 characters
    if (!shown.empty() && (shown.back() & 0x80)) shown.pop_back();
    w = text_width(font, shown + "…");
    if (w <= width + 0.5f) {
      shown += "…";
      break;
    }
  }
  const float left = align == Align::left ? x : align == Align::right ? x + width - w : x + (width - w) / 2;
  list->AddText(font, font->FontSize, {std::round(left), std::round(y)}, color, shown.c_str());
  return w;
}

void fill(ImDrawList* list, const Rect& r, Color color, float rounding) {
  list->AddRectFilled({r.x, r.y}, {r.right(), r.bottom()}, color, rounding);
}

void outline(ImDrawList* list, const Rect& r, Color color, float rounding, float thickness) {
  list->AddRect({r.x, r.y}, {r.right(), r.bottom()}, color, rounding, 0, thickness);
}

void dashed(ImDrawList* list, const Rect& r, Color color, float dash) {
  for (float at = r.x; at < r.right(); at += 2 * dash) {
    const float to = std::min(at + dash, r.right());
    fill(list, {at, r.y, to - at, 1}, color);
    fill(list, {at, r.bottom() - 1, to - at, 1}, color);
  }
  for (float at = r.y; at < r.bottom(); at += 2 * dash) {
    const float to = std::min(at + dash, r.bottom());
    fill(list, {r.x, at, 1, to - at}, color);
    fill(list, {r.right() - 1, at, 1, to - at}, color);
  }
}

void hatch(ImDrawList* list, const Rect& r, Color color, float spacing) {
  list->PushClipRect({r.x, r.y}, {r.right(), r.bottom()}, true);
  for (float at = r.x - r.h; at < r.right(); at += spacing) list->AddLine({at, r.bottom()}, {at + r.h, r.y}, color);
  list->PopClipRect();
}

ImDrawList* begin_panel(const Ui&, const char* name, const Rect& rect, bool inputs) {
  ImGui::SetNextWindowPos({rect.x, rect.y});
  ImGui::SetNextWindowSize({rect.w, rect.h});
  ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                           ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNav;
  if (!inputs) flags |= ImGuiWindowFlags_NoInputs;
  ImGui::Begin(name, nullptr, flags);
  return ImGui::GetWindowDrawList();
}

ImDrawList* begin_scrolling_panel(const Ui&, const char* name, const Rect& rect) {
  ImGui::SetNextWindowPos({rect.x, rect.y});
  ImGui::SetNextWindowSize({rect.w, rect.h});
  ImGui::Begin(name, nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoCollapse |
                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoNav);
  return ImGui::GetWindowDrawList();
}

void end_panel() { ImGui::End(); }

void veil_panel(const Ui& ui, const char* name, const Rect& rect, const std::string& why) {
  ImGui::Begin(name);  // once more: what is drawn now lies above what was
  ImDrawList* list = ImGui::GetWindowDrawList();
  fill(list, rect, with_alpha(ui.colors->panel, 0.6));
  const float w = text_width(ui.fonts.bold, why) + ui.px(24), h = ui.px(28);
  const Rect label = {rect.x + (rect.w - w) / 2, rect.y + rect.h * 0.4f, w, h};
  fill(list, label, ui.colors->box, ui.px(5));
  outline(list, label, ui.colors->line, ui.px(5));
  draw_text(ui, list, ui.fonts.bold, label.x, label.y + (h - ui.fonts.bold->FontSize) / 2, w, ui.colors->text, why,
            Align::center);
  ImGui::End();
}

bool is_covered() {
  return ImGui::IsWindowHovered(ImGuiHoveredFlags_AnyWindow | ImGuiHoveredFlags_AllowWhenBlockedByPopup |
                                ImGuiHoveredFlags_AllowWhenBlockedByActiveItem);
}

}  // namespace flashscope::viz
