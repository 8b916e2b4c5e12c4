// Where lessons come from: those shipped with the product, or a folder of the lecturer's. Nothing outside the folder is
// read, whatever a lesson says.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "viz/io/lesson.h"

namespace flashscope {

class LessonLibrary {
 public:
  /// Compiled into the program.
  static LessonLibrary shipped();
  /// *.md of a folder. Throws Error(input) when it cannot be read.
  static LessonLibrary of_folder(const std::string& folder);

  /// File names ending in ".md", sorted.
  const std::vector<std::string>& files() const { return m_files; }
  /// Text of a file of the folder, as UTF-8 with "\n". Throws Error(input): absent, unreadable, UTF-16, outside.
  std::string text(const std::string& file) const;
  /// Bytes of a picture; throws in the same way.
  std::string bytes(const std::string& file) const;
  /// True where bytes() would not throw; nothing is read.
  bool has(const std::string& file) const;

  /// One lesson, by its file name with or without ".md", its id, or its number. Throws Error(usage) with the list.
  Lesson lesson(const std::string& name) const;

 private:
  /// Of a file of m_folder, its size checked; throws as bytes() does.
  std::string path_of(const std::string& file) const;

  bool m_shipped = true;
  std::string m_folder;
  std::vector<std::string> m_files;
};

/// The lessons that could be read, by number, and for each that could not be why.
struct LessonList {
  std::vector<Lesson> lessons;
  std::vector<std::string> faults;
  const Lesson* find(const std::string& id) const;  // nullptr when there is none
};
/// `between`, where given, is called before each file.
LessonList read_lessons(const LessonLibrary& library, const std::function<void()>& between = {});

}  // namespace flashscope
