// What the window asks of the system below it, where a desktop and a page in a browser differ: platform_desktop.cpp,
// viz/web/platform_page.cpp.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "viz/app/window_memory.h"
#include "viz/core/commands.h"

namespace flashscope::viz::platform {

/// First line of the shaders.
extern const char* const kGlsl;

/// Throws Error(env) where no window can open.
void require_display();
/// Hints for the window that is made next and its context. `placed`: its size is one that the user gave it.
void hint_window(bool placed);
/// The parts of the screens where windows can be.
std::vector<WindowPlace> monitor_places();

/// Pixels per design unit below which type is too small for this screen; 0: not known.
float least_scale();
/// The system's own windows are dark.
bool prefers_dark();

/// Waits for an event, at most so long; < 0: however long. `drawing`: the next frame will be drawn, so waiting goes in
/// step with the screen. A page lends the time to its workers.
void wait_events(double seconds, bool drawing);
/// Something that no GLFW callback tells wants the next frames drawn; asked once.
bool has_news();
/// What the system has to say about an earlier call, that did not wait for it; "": nothing. Asked once.
std::string told();
/// A key became an action: the system below should not act on it too.
void took_key(Command command);
/// Text is being typed: a system with a keyboard on the screen shows it.
void wants_text(bool typing);

enum class Context { good, lost, restored };
/// `restored` once after a loss: everything that OpenGL held is gone.
Context context();

/// What Ctrl+C puts on the clipboard for a state: the token, or a link with it.
std::string link_of(const std::string& token);
/// Shows where the state can be found again: the part of an address after #.
void show_state(const std::string& token);
/// A state that the user went to by other means than the window's: asked once.
std::optional<std::string> wanted_state();

/// An exported file is complete; returns what to tell the user.
std::string hand_over(const std::string& path);
/// What to say when a folder full of files cannot be saved; "" when it can.
std::string why_no_folder();
/// A file that is kept between starts was written; returns what to tell the user, or "".
std::string keep(const std::string& path);
/// Asks the user for files, which then arrive as dropped ones; returns what to tell the user, or "".
std::string ask_for_files();
/// What to say when the window cannot be closed from inside; "" when it can.
std::string why_not_closed();

}  // namespace flashscope::viz::platform
