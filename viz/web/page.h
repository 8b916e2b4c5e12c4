// What page.js does for the program. Text that it returns is allocated; take it with taken().
#pragma once
#include <cstdlib>
#include <string>

extern "C" {
/// Returns after the next event or after so many milliseconds (< 0: however long), and after the next step of the screen
/// when `drawing`. The page lives on meanwhile.
void page_wait(double milliseconds, int drawing);
int page_has_news();
void page_took_key();
void page_wants_text(int typing);
int page_context();  // as platform::Context

double page_pixel_ratio();  // of the canvas to the page
int page_prefers_dark();

char* page_told();                       // something that the user should read; else null
char* page_address();                    // without ? and #
char* page_options();                    // what stands after ?, one "name=value" or "name" a line
char* page_wanted_state();               // what stands after #, when it is not what page_show_state put there; else null
void page_show_state(const char* token); // after #

void page_restore();  // files that page_keep stored in this browser
int page_keep(const char* path);  // 1: it cannot, and nobody was told yet
void page_download(const char* path);
void page_ask_for_files();
void page_fail(const char* text);  // instead of the window
}

inline std::string taken(char* text) {
  const std::string copy = text ? text : "";
  std::free(text);
  return copy;
}
