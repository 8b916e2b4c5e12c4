# The build for browsers (preset "web", Debian's emscripten). Its sysroot has no library of ours and /usr/include must stay
# out of it, so header-only libraries are linked into a folder of their own, Dear ImGui is compiled from Debian's source
# package (`./dev web` unpacks it), and GLFW and OpenGL are emscripten's. Defines the targets that the rooms ask for.
set(FLASHSCOPE_IMGUI_SOURCE ${CMAKE_SOURCE_DIR}/build/imgui-source CACHE PATH "Unpacked source package of Dear ImGui 1.86")
if(NOT EXISTS ${FLASHSCOPE_IMGUI_SOURCE}/imgui.cpp)
  message(FATAL_ERROR "no Dear ImGui source in ${FLASHSCOPE_IMGUI_SOURCE}; './dev web' unpacks it there")
endif()

# Exceptions: how errors travel here. Emscripten leaves them out unless asked, when compiling and when linking.
add_compile_options(-fexceptions)
add_link_options(-fexceptions)

set(headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(header nlohmann CLI toml++ stb/stb_image_write.h)
  if(NOT EXISTS /usr/include/${header})
    message(FATAL_ERROR "/usr/include/${header} is missing; packages.txt names its package")
  endif()
  get_filename_component(name ${header} NAME)
  file(CREATE_LINK /usr/include/${header} ${headers}/${name} SYMBOLIC)
endforeach()

# web_library(name): an interface target as find_package() would make it.
function(web_library name)
  string(REPLACE "::" "_" plain ${name})
  add_library(${plain} INTERFACE)
  if(NOT name STREQUAL plain)
    add_library(${name} ALIAS ${plain})
  endif()
  target_include_directories(${plain} SYSTEM INTERFACE ${headers})
endfunction()
web_library(nlohmann_json::nlohmann_json)
web_library(CLI11::CLI11)
web_library(Threads::Threads)
web_library(OpenGL::OpenGL)
web_library(OpenGL::EGL)
web_library(glfw)
target_link_options(glfw INTERFACE -sUSE_GLFW=3)
set(TOMLPLUSPLUS_INCLUDE_DIR ${headers} CACHE PATH "" FORCE)

# 32-bit indices: WebGL has no base vertex, so a draw list must be able to number more than 65,535 vertices.
set(imgui ${FLASHSCOPE_IMGUI_SOURCE})
add_library(flashscope_imgui STATIC
  ${imgui}/imgui.cpp ${imgui}/imgui_draw.cpp ${imgui}/imgui_tables.cpp ${imgui}/imgui_widgets.cpp
  ${imgui}/misc/cpp/imgui_stdlib.cpp ${imgui}/backends/imgui_impl_glfw.cpp ${imgui}/backends/imgui_impl_opengl3.cpp)
add_library(PkgConfig::imgui ALIAS flashscope_imgui)
target_include_directories(flashscope_imgui SYSTEM PUBLIC ${imgui} ${imgui}/misc/cpp)
target_compile_definitions(flashscope_imgui PUBLIC IMGUI_IMPL_OPENGL_ES3 ImDrawIdx=unsigned)
# Nothing in it throws. Otherwise each call beside something to destroy is a detour through JavaScript.
target_compile_options(flashscope_imgui PRIVATE -fno-exceptions)
set_source_files_properties(${imgui}/backends/imgui_impl_opengl3.cpp PROPERTIES
  COMPILE_DEFINITIONS glGetIntegerv=page_gl_integer)  # viz/web/gl_state.cpp
target_link_libraries(flashscope_imgui PUBLIC glfw)
set(imgui_VERSION 1.86)
set(glfw3_VERSION "of emscripten ${EMSCRIPTEN_VERSION}")

# flashscope_web_precompile(): headers that most files read, read once, and the rooms whose templates are most of their
# compilation in batches. That is most of what this compiler does.
function(flashscope_web_precompile)
  flashscope_unity(flashscope_io flashscope_viz_core)
  # Alone: their names are also those of others (TileState, …).
  foreach(file io/json_numbers io/lesson_progress io/ncu_csv core/softmax_steps)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/viz/${file}.cpp TARGET_DIRECTORY flashscope_io flashscope_viz_core
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  target_precompile_headers(flashscope_sim PRIVATE <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory>
    <optional> <set> <string> <unordered_map> <utility> <vector> "${CMAKE_SOURCE_DIR}/sim/schedule/schedule.h"
    "${CMAKE_SOURCE_DIR}/sim/engine/engine.h")
  target_precompile_headers(flashscope_io PRIVATE <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional>
    <iostream> <map> <memory> <mutex> <optional> <sstream> <string> <utility> <vector> <nlohmann/json.hpp>
    "${CMAKE_SOURCE_DIR}/sim/engine/engine.h" "${CMAKE_SOURCE_DIR}/kernels/kernels.h")
  foreach(target flashscope_viz_core flashscope_palette flashscope_options_cli flashscope_lesson_engine)
    target_precompile_headers(${target} REUSE_FROM flashscope_io)
  endforeach()
  target_precompile_headers(flashscope_viz_panels PRIVATE <imgui.h> <imgui_internal.h>
    "${CMAKE_SOURCE_DIR}/viz/core/app_state.h" "${CMAKE_SOURCE_DIR}/viz/core/lesson_session.h")
  foreach(target flashscope_viz_render flashscope_viz_app)
    target_precompile_headers(${target} REUSE_FROM flashscope_viz_panels)
  endforeach()
endfunction()
