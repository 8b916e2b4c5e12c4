// Inline Markdown of a lesson.
#include "sim/error.h"

#include <algorithm>

#include "viz/io/lesson.h"
#include "viz/io/plain_text.h"

namespace flashscope {
namespace {

using Kind = LessonSpan::Kind;

/// Reads spans from the front of a text.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file, int line) : m_rest(text), m_file(file), m_line(line) {}

  LessonText read() {
    while (!m_rest.empty()) step();
    flush();
    return std::move(m_spans);
  }

 private:
  void step() {
    if (starts_with(m_rest, "\\") && m_rest.size() > 1) return plain(m_rest[1], 2);
    if (starts_with(m_rest, "{{")) return add(Kind::value, trimmed(between("{{", "}}")), "");
    if (starts_with(m_rest, "[[")) return term(between("[[", "]]"));
    if (starts_with(m_rest, "`")) return add(Kind::code, std::string(between("`", "`")), "");
    if (starts_with(m_rest, "**")) return add(Kind::strong, words_between("**"), "");
    // A star between blanks is a multiplication.
    if (starts_with(m_rest, "*") && m_rest.size() > 1 && m_rest[1] != ' ')
      return add(Kind::emphasis, words_between("*"), "");
    if (starts_with(m_rest, "![")) return link(Kind::image, "![");
    if (starts_with(m_rest, "[")) return link(Kind::link, "[");
    plain(m_rest[0], 1);
  }

  void plain(char c, std::size_t length) {
    if (c == '\n') ++m_line;
    m_text += c == '\n' ? ' ' : c;
    m_rest.remove_prefix(length);
  }

  std::string_view between(std::string_view open, std::string_view close) {
    const std::size_t end = m_rest.find(close, open.size());
    if (end == std::string_view::npos)
      fail("'" + std::string(open) + "' is not closed by '" + std::string(close) + "'");
    const std::string_view inner = m_rest.substr(open.size(), end - open.size());
    if (inner.empty()) fail("nothing stands between '" + std::string(open) + "' and '" + std::string(close) + "'");
    m_rest.remove_prefix(end + close.size());
    return inner;
  }

  /// Styles do not nest: a term or a value in bold would lose what it is.
  std::string words_between(std::string_view mark) {
    const std::string inner(between(mark, mark));
    if (inner.find("[[") != std::string::npos || inner.find("{{") != std::string::npos)
      fail("a term or a value inside '" + std::string(mark) + "'; they have a look of their own");
    return inner;
  }

  void term(std::string_view inner) {
    if (inner.size() > 100) fail("a term of more than 100 characters");
    const std::size_t bar = inner.find('|');
    const std::string shown = trimmed(inner.substr(0, bar));
    add(Kind::term, shown, bar == std::string_view::npos ? shown : trimmed(inner.substr(bar + 1)));
  }

  void link(Kind kind, std::string_view open) {
    const std::string text(between(open, "]"));
    if (!starts_with(m_rest, "(")) fail("'[" + text + "]' has no address in parentheses; write '\\[' for a bracket");
    add(kind, text, trimmed(between("(", ")")));
  }

  void add(Kind kind, std::string text, std::string target) {
    flush();
    for (char& c : text)
      if (c == '\n') {
        c = ' ';
        ++m_line;
      }
    m_spans.push_back({kind, std::move(text), std::move(target), m_line});
  }

  void flush() {
    if (!m_text.empty()) m_spans.push_back({Kind::text, m_text, "", m_line});
    m_text.clear();
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ErrorKind::input, m_file + ":" + std::to_string(m_line) + ": " + text);
  }

  std::string_view m_rest;
  const std::string& m_file;
  int m_line;
  std::string m_text;  // plain characters not yet in a span
  LessonText m_spans;
};

}  // namespace

LessonText parse_lesson_text(std::string_view text, const std::string& file, int line) {
  return Reader(text, file, line).read();
}

bool is_link_address(const std::string& address) {
  return starts_with(address, "https://") || starts_with(address, "http://") || is_inside_folder(address);
}

bool is_inside_folder(const std::string& path) {
  if (path.empty() || path[0] == '/' || path[0] == '~' || path.find('\\') != std::string::npos ||
      path.find(':') != std::string::npos)
    return false;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace flashscope
