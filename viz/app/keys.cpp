#include "viz/app/keys.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

namespace flashscope::viz {
namespace {

std::string plain_name(int key, const char* layout_name) {
  switch (key) {
    case GLFW_KEY_SPACE: return "Space";
    case GLFW_KEY_RIGHT: return "→";
    case GLFW_KEY_LEFT: return "←";
    case GLFW_KEY_UP: return "↑";
    case GLFW_KEY_DOWN: return "↓";
    case GLFW_KEY_HOME: return "Home";
    case GLFW_KEY_END: return "End";
    case GLFW_KEY_PAGE_UP: return "PgUp";
    case GLFW_KEY_PAGE_DOWN: return "PgDn";
    case GLFW_KEY_KP_ADD: return "+";
    case GLFW_KEY_KP_SUBTRACT: return "-";
    default: break;
  }
  if (key >= GLFW_KEY_F1 && key <= GLFW_KEY_F12) return "F" + std::to_string(key - GLFW_KEY_F1 + 1);
  std::string name = layout_name ? layout_name : "";
  if (name.empty() && key > GLFW_KEY_SPACE && key <= GLFW_KEY_GRAVE_ACCENT)
    name = std::string(1, static_cast<char>(key));
  if (name.size() == 1 && name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

}  // namespace

std::string name_of_key(int key, int mods, const char* layout_name) {
  if (mods & (GLFW_MOD_ALT | GLFW_MOD_SUPER)) return "";
  const std::string name = plain_name(key, layout_name);
  if (name.empty()) return "";
  // Shift is part of how a sign is typed on some layouts; with letters it is a modifier.
  const bool letter = name.size() == 1 && name[0] >= 'A' && name[0] <= 'Z';
  return std::string(mods & GLFW_MOD_CONTROL ? "Ctrl+" : "") + (letter && (mods & GLFW_MOD_SHIFT) ? "Shift+" : "") +
         name;
}

bool is_character(const std::string& name) {
  return name.size() == 1 || (name.size() == 7 && name.rfind("Shift+", 0) == 0);
}

std::optional<Action> action_of_glfw_key(int key, int mods, const char* layout_name) {
  return action_of_key(name_of_key(key, mods, layout_name));
}

}  // namespace flashscope::viz
