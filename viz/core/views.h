// The views and inspectors of the window, each in one visible list: menus, keys, state tokens and help read it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashscope::viz {

enum class View : std::uint8_t {
  explore,   // every parameter a control, two algorithms on one clock, inspectors
  validate,  // predicted against recorded, every row of the recording
  learn,     // lessons, and the stage that they speak of
};

enum class Inspector : std::uint8_t { numbers, bytes, roofline, sweep, softmax, occupancy, memory, source };

/// How an entry is called: `key` in state tokens and options, `title` on its tab.
template <class Which>
struct Entry {
  Which which;
  const char* key;
  const char* title;
  const char* what;  // one line for tips and help
};

const std::vector<Entry<View>>& views();
const std::vector<Entry<Inspector>>& inspectors();

template <class Which>
const Entry<Which>* find_entry(const std::vector<Entry<Which>>& list, std::string_view key) {
  for (const Entry<Which>& entry : list)
    if (key == entry.key) return &entry;
  return nullptr;
}
template <class Which>
const Entry<Which>& entry_of(const std::vector<Entry<Which>>& list, Which which) {
  for (const Entry<Which>& entry : list)
    if (which == entry.which) return entry;
  return list.front();
}

/// An inspector that needs more than the narrow column: it takes the place of one stage as well.
inline bool is_wide(Inspector inspector) { return inspector != Inspector::numbers; }

}  // namespace flashscope::viz
