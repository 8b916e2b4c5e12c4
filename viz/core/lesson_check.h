// Everything a lesson promises, tried without a window: each value, claim, answer, show, link, term and picture.
#pragma once
#include <string>
#include <vector>

#include "viz/core/lesson_runtime.h"

namespace flashscope::viz {

struct LessonCheck {
  std::string name, title;
  std::vector<std::string> faults;       // "file:line: what", in the order found
  std::vector<std::string> differences;  // the same, where only another machine or recording than the lesson's makes it
  int steps = 0, runs = 0, values = 0, claims = 0, shows = 0, asks = 0;
  int words = 0;
  double minutes = 0;       // to read at 180 words a minute, look at each show and answer each question
  double reading_ease = 0;  // Flesch: 60 is plain English, 30 is a scientific text
};

LessonCheck check_lesson(const OpenLesson& open, const LessonLibrary& library);

/// Words, sentences and Flesch reading ease of running text.
struct Readability {
  int words = 0, sentences = 0, syllables = 0;
  double ease() const;
};
Readability readability(const std::string& text);

}  // namespace flashscope::viz
