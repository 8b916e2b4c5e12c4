#include "viz/render/rich_text.h"

#include <algorithm>
#include <cmath>

#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

/// A word, or a part of one where the style changes inside it.
struct Token {
  std::string text;
  const TextPiece* piece = nullptr;
  bool space_before = false;
  float width = 0;
};

/// `width`: what is wider as it hangs together is broken at its no-break spaces after all.
std::vector<Token> tokens_of(const Ui& ui, const std::vector<TextPiece>& pieces, float width) {
  static const std::string kNoBreak = "\u00a0";
  std::vector<Token> tokens;
  bool space = false;
  for (const TextPiece& piece : pieces) {
    std::size_t at = 0;
    while (at < piece.text.size()) {
      if (piece.text[at] == ' ') {
        space = true;
        ++at;
        continue;
      }
      std::size_t end = std::min(piece.text.find(' ', at), piece.text.size());
      if (piece.chip) end = piece.text.size();  // a chip is not broken
      const auto add = [&](const std::string& text) {
        tokens.push_back({text, &piece, space, text_width(piece.font, text) + (piece.chip ? ui.px(6) : 0)});
      };
      const std::string word = piece.text.substr(at, end - at);
      if (piece.chip || text_width(piece.font, word) <= width) {
        add(word);
      } else {
        for (std::size_t from = 0; from <= word.size();) {
          const std::size_t to = std::min(word.find(kNoBreak, from), word.size());
          if (to > from) add(word.substr(from, to - from));
          space = true;
          from = to + (to < word.size() ? kNoBreak.size() : 1);
        }
      }
      space = false;
      at = end;
    }
  }
  return tokens;
}

void draw_token(const Ui& ui, ImDrawList* list, const Token& token, float x, float y) {
  const TextPiece& piece = *token.piece;
  const float size = piece.font->FontSize;
  float text_x = x;
  if (piece.chip) {
    fill(list, {x, y - ui.px(1), token.width, size + ui.px(3)}, piece.chip, ui.px(3));
    text_x += ui.px(3);
  }
  list->AddText(piece.font, size, {std::round(text_x), std::round(y)}, piece.color, token.text.c_str());
  if (piece.underline)
    list->AddLine({x, y + size + ui.px(1)}, {x + token.width, y + size + ui.px(1)}, piece.underline,
                  std::max(1.0f, ui.px(1)));
  if (!piece.tip.empty() && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) &&
      ImGui::IsMouseHoveringRect({x, y}, {x + token.width, y + size})) {
    ImGui::BeginTooltip();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = std::min(ui.px(320), text_width(ui.fonts.body, kept_together(piece.tip)) + 1);
    const float height =
        draw_paragraph(ui, ImGui::GetWindowDrawList(), ui.fonts.body, at.x, at.y, width, ui.colors->text, piece.tip);
    ImGui::Dummy({width, height});
    ImGui::EndTooltip();
  }
}

}  // namespace

float draw_rich_text(const Ui& ui, ImDrawList* list, float x, float y, float width,
                     const std::vector<TextPiece>& pieces, float leading) {
  if (pieces.empty()) return 0;
  const std::vector<Token> tokens = tokens_of(ui, pieces, width);
  float line_height = 0;
  for (const TextPiece& piece : pieces) line_height = std::max(line_height, std::round(piece.font->FontSize * leading));
  float at = 0, top = y;
  for (std::size_t n = 0; n < tokens.size();) {
    // What hangs together without a blank goes to one line.
    std::size_t end = n + 1;
    float together = tokens[n].width;
    while (end < tokens.size() && !tokens[end].space_before) together += tokens[end++].width;
    const float blank = tokens[n].space_before && at > 0 ? text_width(tokens[n].piece->font, " ") : 0;
    if (at > 0 && at + blank + together > width) {
      at = 0;
      top += line_height;
    } else {
      at += blank;
    }
    for (; n < end; ++n) {
      draw_token(ui, list, tokens[n], x + at, top);
      at += tokens[n].width;
    }
  }
  return top + line_height - y;
}

float draw_paragraph(const Ui& ui, ImDrawList* list, ImFont* font, float x, float y, float width, Color color,
                     const std::string& text, float leading) {
  float height = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    TextPiece line;
    line.text = kept_together(text.substr(at, end - at));
    line.font = font;
    line.color = color;
    height += draw_rich_text(ui, list, x, y + height, width, {line}, leading);
    at = end + 1;
  }
  return height;
}

}  // namespace flashscope::viz
