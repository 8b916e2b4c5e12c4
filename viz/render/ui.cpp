#include "viz/render/ui.h"

#include <algorithm>
#include <cmath>
#include <fstream>

namespace flashscope::viz {
namespace {

bool exists(const std::string& path) { return std::ifstream(path).good(); }

/// The first of the names that a known font folder has; "" when none.
std::string find_font(std::initializer_list<const char*> names) {
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
  for (const char* name : names)
    for (const char* folder : folders)
      if (exists(std::string(folder) + name)) return std::string(folder) + name;
  return "";
}

// Latin, Greek, super- and subscripts, arrows, mathematical operators, geometric shapes.
const ImWchar kRanges[] = {0x0020, 0x00FF, 0x0370, 0x03FF, 0x1D40, 0x1D40, 0x2010, 0x2027, 0x2070, 0x209C, 0x2113,
                           0x2113, 0x2190, 0x21FF, 0x2200, 0x22FF, 0x25A0, 0x25FF, 0x2713, 0x2713, 0};
const ImWchar kDigits[] = {'0', '9', 0};

ImFont* add_font(std::initializer_list<const char*> names, float size) {
  ImFontAtlas* atlas = ImGui::GetIO().Fonts;
  const std::string text = find_font(names);
  if (text.empty()) {
    ImFontConfig config;
    config.SizePixels = std::max(13.0f, size);
    return atlas->AddFontDefault(&config);
  }
  // Digits first, each as wide as the widest, so that running counters stand still; then the rest of the same font;
  // then the symbols it lacks from one that has them.
  ImFontConfig digits;
  digits.GlyphMinAdvanceX = digits.GlyphMaxAdvanceX = size * 0.6f;
  digits.OversampleH = 2;
  ImFont* font = atlas->AddFontFromFileTTF(text.c_str(), size, &digits, kDigits);
  ImFontConfig rest;
  rest.MergeMode = true;
  rest.OversampleH = 2;
  atlas->AddFontFromFileTTF(text.c_str(), size, &rest, kRanges);
  const std::string symbols = find_font({"DejaVuSans.ttf"});
  if (!symbols.empty() && symbols != text) atlas->AddFontFromFileTTF(symbols.c_str(), size, &rest, kRanges);
  return font;
}

}  // namespace

Fonts load_fonts(float scale) {
  const auto size = [&](float units) { return std::round(units * scale); };
  Fonts fonts;
  fonts.body =
      add_font({"Inter-Regular.otf", "Inter-Regular.ttf", "DejaVuSansCondensed.ttf", "DejaVuSans.ttf"}, size(15));
  fonts.small =
      add_font({"Inter-Regular.otf", "Inter-Regular.ttf", "DejaVuSansCondensed.ttf", "DejaVuSans.ttf"}, size(13));
  fonts.bold = add_font(
      {"Inter-SemiBold.otf", "Inter-SemiBold.ttf", "DejaVuSansCondensed-Bold.ttf", "DejaVuSans-Bold.ttf"}, size(15));
  fonts.title = add_font(
      {"Inter-SemiBold.otf", "Inter-SemiBold.ttf", "DejaVuSansCondensed-Bold.ttf", "DejaVuSans-Bold.ttf"}, size(19));
  fonts.mono = add_font({"JetBrainsMono-Regular.ttf", "DejaVuSansMono.ttf"}, size(12.5f));
  return fonts;
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

float draw_text(const Ui&, ImDrawList* list, ImFont* font, float x, float y, float width, Color color,
                const std::string& text, Align align) {
  std::string shown = text;
  float w = text_width(font, shown);
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

}  // namespace flashscope::viz
