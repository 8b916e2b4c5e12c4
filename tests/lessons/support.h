// A lesson from a few lines, and an engine that predicts nothing: documents are given.
#pragma once
#include <string>

#include "sim/error.h"
#include "viz/core/lesson_runtime.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz::testing {

inline const char* kFront = "+++\nid = \"t\"\nnumber = 1\ntitle = \"T\"\nsummary = \"S\"\n+++\n";

inline Lesson lesson_of(const std::string& body, const std::string& file = "t.md") {
  return parse_lesson(kFront + body, file);
}

/// Every run gives {"bytes": 4456448, "us": 1.5, "name": "x"}.
inline LessonEngine fixed_engine() {
  return [](const LessonRun&, const LessonLibrary&, const StillWanted&) {
    RunFacts facts;
    facts.document = std::make_shared<const Json>(
        Json{{"bytes", 4456448}, {"us", 1.5}, {"name", "x"}, {"absent", "unavailable (no GPU)"}});
    return facts;
  };
}

inline OpenLesson opened(const std::string& body) {
  return open_lesson(lesson_of(body), LessonLibrary::shipped(), fixed_engine());
}

template <class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace flashscope::viz::testing
