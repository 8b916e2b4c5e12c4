#include "viz/io/lesson_library.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/error.h"
#include "viz/io/embedded.h"
#include "viz/io/files.h"
#include "viz/io/toml.h"

namespace flashscope {
namespace {

// A lesson of an hour has 20 kB; a picture or tensors are larger.
constexpr std::int64_t kMostLessonBytes = 1 << 20, kMostOtherBytes = 64 << 20;

bool is_lesson_file(const std::string& name) { return name.size() > 3 && name.substr(name.size() - 3) == ".md"; }

std::int64_t most_bytes(const std::string& file) { return is_lesson_file(file) ? kMostLessonBytes : kMostOtherBytes; }

/// "3" and "03", as the files' names begin.
bool is_number(const std::string& name, int number) {
  const std::size_t digits = std::min(name.find_first_not_of('0'), name.size());
  return !name.empty() && name.substr(digits) == (number == 0 ? "" : std::to_string(number));
}

const EmbeddedFile* embedded(const std::string& name) {
  for (const EmbeddedFile& file : embedded_lessons())
    if (file.name == name) return &file;
  return nullptr;
}

/// The file's path when it lies in the folder, also after symbolic links; throws otherwise.
std::string path_inside(const std::string& folder, const std::string& file) {
  namespace fs = std::filesystem;
  const std::string place = is_lesson_file(file) ? file + ":1" : file;
  if (!is_inside_folder(file)) throw Error(ErrorKind::input, file + ": outside the lesson's folder " + folder);
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed) throw Error(ErrorKind::input, folder + ": " + failed.message());
  const fs::path path = fs::canonical(root / file, failed);
  if (failed) throw Error(ErrorKind::input, place + ": cannot be read in " + folder + ": " + failed.message());
  const auto [in_root, in_path] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  if (in_root != root.end())
    throw Error(ErrorKind::input, place + ": a link that leads out of the lesson's folder " + folder);
  // A pipe would be waited for without end.
  if (!fs::is_regular_file(path, failed)) throw Error(ErrorKind::input, file + ":1: not a file in " + folder);
  return path.string();
}

}  // namespace

LessonLibrary LessonLibrary::shipped() {
  LessonLibrary library;
  if (!can_read_toml()) return library;  // none, and lesson() says why
  for (const EmbeddedFile& file : embedded_lessons())
    if (is_lesson_file(std::string(file.name))) library.m_files.emplace_back(file.name);
  std::sort(library.m_files.begin(), library.m_files.end());
  return library;
}

LessonLibrary LessonLibrary::of_folder(const std::string& folder) {
  LessonLibrary library;
  library.m_shipped = false;
  library.m_folder = folder;
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder, failed);
  if (failed) throw Error(ErrorKind::input, folder + ": not a folder that can be read: " + failed.message());
  for (; entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    if (failed) throw Error(ErrorKind::input, folder + ": " + failed.message());
    const std::string name = entry->path().filename().string();
    if (is_lesson_file(name) && name[0] != '.') library.m_files.push_back(name);
  }
  std::sort(library.m_files.begin(), library.m_files.end());
  return library;
}

std::string LessonLibrary::path_of(const std::string& file) const {
  std::string path = path_inside(m_folder, file);
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (!failed && size > static_cast<std::uintmax_t>(most_bytes(file)))
    throw Error(ErrorKind::input,
                file + ":1: " + std::to_string(size) + " bytes, and " +
                    (is_lesson_file(file)
                         ? "a lesson has at most " + std::to_string(kMostLessonBytes) + "; make several lessons of it"
                         : "a lesson's file has at most " + std::to_string(kMostOtherBytes)));
  return path;
}

std::string LessonLibrary::bytes(const std::string& file) const {
  if (!m_shipped) return read_binary_file(path_of(file), most_bytes(file));
  if (const EmbeddedFile* found = embedded(file)) return std::string(found->content);
  throw Error(ErrorKind::input, file + ": not shipped with the lessons");
}

std::string LessonLibrary::text(const std::string& file) const {
  // What is no text is so from its first line on.
  return text_from_bytes(bytes(file), is_lesson_file(file) ? file + ":1" : file);
}

bool LessonLibrary::has(const std::string& file) const {
  if (m_shipped) return embedded(file) != nullptr;
  try {
    return std::ifstream(path_of(file)).good();  // it may be unreadable
  } catch (const Error&) {
    return false;
  }
}

Lesson LessonLibrary::lesson(const std::string& name) const {
  if (!can_read_toml()) parse_toml("", "lessons");  // says why there are none
  for (const std::string& file : m_files)
    if (file == name || file == name + ".md") return parse_lesson(text(file), file);
  std::string names;
  for (const std::string& file : m_files) {
    names += (names.empty() ? "" : ", ") + file.substr(0, file.size() - 3);
    try {
      Lesson lesson = parse_lesson(text(file), file);
      if (lesson.id == name || is_number(name, lesson.number)) return lesson;
    } catch (const Error&) {  // another lesson's fault
    }
  }
  throw Error(ErrorKind::usage, "lesson: '" + name + "' is not one of " + (names.empty() ? "(no lesson here)" : names));
}

const Lesson* LessonList::find(const std::string& id) const {
  for (const Lesson& lesson : lessons)
    if (lesson.id == id) return &lesson;
  return nullptr;
}

LessonList read_lessons(const LessonLibrary& library, const std::function<void()>& between) {
  LessonList list;
  for (const std::string& file : library.files()) {
    if (between) between();
    try {
      Lesson lesson = parse_lesson(library.text(file), file);
      if (const Lesson* same = list.find(lesson.id))
        throw Error(ErrorKind::input, file + ":2: the id '" + lesson.id + "' is that of " + same->file +
                                          "; progress needs one for each lesson");
      list.lessons.push_back(std::move(lesson));
    } catch (const Error& error) {
      list.faults.emplace_back(error.what());
    }
  }
  std::stable_sort(list.lessons.begin(), list.lessons.end(),
                   [](const Lesson& a, const Lesson& b) { return a.number < b.number; });
  return list;
}

}  // namespace flashscope
