// A lesson file as blocks: front matter, steps, and what stands between fences.
#include <algorithm>
#include <set>

#include "sim/error.h"
#include "viz/io/json_numbers.h"
#include "viz/io/lesson.h"
#include "viz/io/plain_text.h"
#include "viz/io/toml.h"

namespace flashscope {
namespace {

bool is_name(const std::string& text) {
  const auto valid = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_'; };
  return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), valid);
}

/// Characters in front of the item's text, 3 of "1. a"; 0 when the line is no numbered item.
std::size_t numbered_item(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size() && at < 3 && is_digit(line[at])) ++at;
  return at > 0 && starts_with(line.substr(at), ". ") ? at + 2 : 0;
}

bool is_bullet(std::string_view line) { return starts_with(line, "- ") || starts_with(line, "* "); }

/// No line of the paragraph or item above it.
bool begins_block(std::string_view line) {
  return trimmed(line).empty() || starts_with(line, "```") || starts_with(line, "#") || starts_with(line, "|") ||
         starts_with(line, "> ") || is_bullet(line) || numbered_item(line);
}

/// Cells of "| a | b |": a bar inside [[ ]], {{ }} or ` `, or behind a backslash, belongs to the cell.
std::vector<std::string> table_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  std::string_view close;
  for (std::size_t at = 1; at < line.size(); ++at) {
    const std::string_view rest = line.substr(at);
    if (!close.empty()) {
      if (starts_with(rest, close)) close = {};
    } else if (rest[0] == '\\' && rest.size() > 1) {
      cells.back() += line[at++];  // and the character behind it, below
    } else if (starts_with(rest, "[[")) {
      close = "]]";
    } else if (starts_with(rest, "{{")) {
      close = "}}";
    } else if (rest[0] == '`') {
      close = "`";
    } else if (rest[0] == '|') {
      cells.emplace_back();
      continue;
    }
    cells.back() += line[at];
  }
  if (trimmed(cells.back()).empty()) cells.pop_back();  // after the closing bar
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

/// The line below a table's heading.
bool is_table_rule(std::string_view line) {
  return starts_with(line, "|") && line.find('-') != std::string_view::npos &&
         line.find_first_not_of("|-: ") == std::string_view::npos;
}

/// Without overlong forms, surrogates and what lies above U+10FFFF.
bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned first = byte(at), second = byte(at + 1);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0) return false;
    for (std::size_t n = 1; n < length; ++n)
      if ((byte(at + n) & 0xC0) != 0x80) return false;
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
      return false;
    at += length;
  }
  return true;
}

// Of each kind in one lesson, and of answers in one question: far more than can be read, far less than takes long.
constexpr std::size_t kMostBlocks = 1000, kMostAnswers = 200;
constexpr std::size_t kMostKeyBytes = 200;

/// An escape sequence in a name would reach the terminal that lists it.
bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

/// Keys of a question of one kind, which mean nothing to the others.
const std::vector<std::string>& keys_of(LessonAsk::Kind kind) {
  static const std::vector<std::string> number = {"answer", "unit", "tolerance", "mistakes"},
                                        choice = {"right", "wrong"}, order = {"items", "descending", "mistakes"};
  return kind == LessonAsk::Kind::number ? number : kind == LessonAsk::Kind::choice ? choice : order;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) {
    m_lesson.file = file;
    m_lesson.name = file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1);
    if (m_lesson.name.size() > 3 && m_lesson.name.substr(m_lesson.name.size() - 3) == ".md")
      m_lesson.name.resize(m_lesson.name.size() - 3);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      m_lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  Lesson parse() {
    for (m_at = 0; m_at < m_lines.size(); ++m_at)
      if (!is_utf8(current())) fail(line(), "this line is not UTF-8; save the file as UTF-8");
    front_matter();
    while (m_at < m_lines.size()) block();
    if (m_lesson.steps.empty()) fail(line(), "there is no step; a step begins with '## '");
    return std::move(m_lesson);
  }

 private:
  int line() const { return static_cast<int>(m_at) + 1; }

  [[noreturn]] void fail(int at, const std::string& text) const {
    throw Error(ErrorKind::input, m_lesson.file + ":" + std::to_string(at) + ": " + text);
  }

  std::string_view current() const { return m_lines[m_at]; }

  LessonText inlines(const std::string& text, int at) const { return parse_lesson_text(text, m_lesson.file, at); }

  void front_matter() {
    if (m_lines.empty() || trimmed(m_lines[0]) != "+++")
      fail(1, "a lesson begins with '+++', a table in TOML, and '+++'");
    std::string toml;
    for (m_at = 1; m_at < m_lines.size() && trimmed(current()) != "+++"; ++m_at) toml += std::string(current()) + "\n";
    if (m_at == m_lines.size()) fail(1, "the front matter is not closed by '+++'");
    ++m_at;
    const TomlTable table = parse_toml(toml, m_lesson.file, 2);
    check_toml_keys(table, {"id", "title", "number", "summary", "terms"});
    m_lesson.id = key_text(table, "id", toml_string(table, "id"));
    m_lesson.title = toml_string(table, "title");
    if (has_control_characters(m_lesson.title)) fail(table.line("title"), "title: it has control characters");
    m_lesson.summary = toml_string(table, "summary");
    m_lesson.number = toml_integer(table, "number", 0, 999);
    if (table.has("terms")) {
      const Json& terms = table.values["terms"];
      if (!terms.is_object()) fail(2, "terms: a table of names and their meanings");
      for (const auto& [name, meaning] : terms.items()) {
        if (!meaning.is_string()) fail(2, "terms: '" + name + "' has no meaning in quotes");
        m_lesson.terms[name] = meaning.get<std::string>();
      }
    }
  }

  /// What names a lesson or a question in files and lists.
  std::string key_text(const TomlTable& table, const char* key, const std::string& text) const {
    if (trimmed(text).empty()) fail(table.line(key), std::string("'") + key + "' is empty");
    if (has_control_characters(text)) fail(table.line(key), std::string("'") + key + "' has control characters");
    if (text.size() > kMostKeyBytes)
      fail(table.line(key), std::string("'") + key + "' has more than " + std::to_string(kMostKeyBytes) + " bytes");
    return text;
  }

  /// What is read or chosen: something must stand there.
  void refuse_empty(const std::string& text, const char* what, int at) const {
    if (trimmed(text).empty()) fail(at, std::string(what) + " is empty");
  }

  void refuse_more_than_most(std::size_t count, const char* key, const TomlTable& table) const {
    if (count > kMostAnswers)
      throw Error(ErrorKind::input, table.place(key) + ": '" + key + "' has " + std::to_string(count) +
                                        " entries; at most " + std::to_string(kMostAnswers));
  }

  LessonStep& step(int at) {
    if (m_lesson.steps.empty()) fail(at, "text before the first step; a step begins with '## '");
    return m_lesson.steps.back();
  }

  void add(LessonBlock block) { step(block.line).blocks.push_back(std::move(block)); }

  LessonBlock block_of(LessonBlock::Kind kind, const std::string& text, int at) {
    LessonBlock block;
    block.kind = kind;
    block.line = at;
    block.text = inlines(text, at);
    return block;
  }

  void block() {
    const std::string_view text = current();
    const int at = line();
    if (trimmed(text).empty()) {
      ++m_at;
    } else if (starts_with(text, "```")) {
      fenced();
    } else if (starts_with(text, "## ")) {
      m_lesson.steps.push_back({trimmed(text.substr(3)), at, {}});
      ++m_at;
    } else if (starts_with(text, "### ")) {
      add(block_of(LessonBlock::Kind::heading, trimmed(text.substr(4)), at));
      ++m_at;
    } else if (starts_with(text, "#")) {
      fail(at, "steps are '## ' and headings inside a step '### '; the title stands in the front matter");
    } else if (starts_with(text, "|")) {
      table();
    } else if (is_bullet(text)) {
      item(LessonBlock::Kind::bullet, 2);
    } else if (const std::size_t skip = numbered_item(text)) {
      item(LessonBlock::Kind::numbered, skip);
    } else if (starts_with(text, "> ")) {
      item(LessonBlock::Kind::quote, 2);
    } else {
      paragraph();
    }
  }

  /// The lines of one paragraph or item.
  std::string gathered(std::size_t skip) {
    std::string text = trimmed(current().substr(skip));
    for (++m_at; m_at < m_lines.size(); ++m_at) {
      if (begins_block(current())) break;
      text += "\n" + trimmed(current());
    }
    return text;
  }

  void paragraph() {
    const int at = line();
    LessonBlock block = block_of(LessonBlock::Kind::paragraph, gathered(0), at);
    const bool picture = block.text.size() == 1 && block.text[0].kind == LessonSpan::Kind::image;
    if (picture) block.kind = LessonBlock::Kind::image;
    add(std::move(block));
  }

  void item(LessonBlock::Kind kind, std::size_t skip) {
    const int at = line();
    const int number = kind == LessonBlock::Kind::numbered ? std::stoi(std::string(current().substr(0, skip - 2))) : 0;
    LessonBlock block = block_of(kind, gathered(skip), at);
    block.number = number;
    add(std::move(block));
  }

  void table() {
    LessonBlock block;
    block.kind = LessonBlock::Kind::table;
    block.line = line();
    for (; m_at < m_lines.size() && starts_with(current(), "|"); ++m_at) {
      if (line() == block.line + 1 && is_table_rule(current())) continue;
      std::vector<LessonText> row;
      for (const std::string& cell : table_cells(current())) row.push_back(inlines(cell, line()));
      if (!block.table.empty() && row.size() != block.table[0].size())
        fail(line(), "this row has " + std::to_string(row.size()) + " cells and the first has " +
                         std::to_string(block.table[0].size()));
      block.table.push_back(std::move(row));
    }
    add(std::move(block));
  }

  void fenced() {
    const int at = line();
    const std::string info = trimmed(current().substr(3));
    std::string text;
    for (++m_at; m_at < m_lines.size() && !starts_with(current(), "```"); ++m_at) text += std::string(current()) + "\n";
    if (m_at == m_lines.size()) fail(at, "this fence is not closed by '```'");
    ++m_at;
    const std::string word = info.substr(0, info.find(' '));
    const std::string argument = info.size() > word.size() ? trimmed(info.substr(word.size())) : "";
    const bool too_many = (word == "run" && m_lesson.runs.size() == kMostBlocks) ||
                          (word == "show" && m_lesson.shows.size() == kMostBlocks) ||
                          (word == "ask" && m_lesson.asks.size() == kMostBlocks);
    if (too_many) fail(at, "a lesson has at most " + std::to_string(kMostBlocks) + " blocks ```" + word);
    if (word == "run") return run(argument, text, at);
    if (word == "claims") return claims(text, at);
    if (word == "show") return show(text, at);
    if (word == "ask") return ask(text, at);
    LessonBlock block;
    block.kind = LessonBlock::Kind::code;
    block.line = at;
    block.code = text;
    add(std::move(block));
  }

  void run(const std::string& name, const std::string& text, int at) {
    if (!is_name(name)) fail(at, "```run NAME: a name has small letters, digits and _, and begins with a letter");
    for (const LessonRun& other : m_lesson.runs)
      if (other.name == name) fail(at, "a run named '" + name + "' stands in line " + std::to_string(other.line));
    TomlTable table = parse_toml(text, m_lesson.file, at + 1);
    LessonRun run;
    if (table.has("like")) {
      const std::string like = toml_string(table, "like");
      const auto is_like = [&](const LessonRun& r) { return r.name == like; };
      const auto found = std::find_if(m_lesson.runs.begin(), m_lesson.runs.end(), is_like);
      if (found == m_lesson.runs.end()) fail(table.line("like"), "like: no run named '" + like + "' stands above");
      run = *found;
    }
    run.name = name;
    run.line = at;
    run.timed = toml_bool(table, "timed", run.timed);
    run.tensors = toml_string(table, "tensors", run.tensors);
    if (!run.tensors.empty() && !is_inside_folder(run.tensors))
      fail(table.line("tensors"), "tensors: '" + run.tensors + "' is outside the lesson's folder");
    for (const auto& [key, value] : table.values.items()) {
      if (key == "like" || key == "timed" || key == "tensors") continue;
      if (value.is_string())
        run.options[key] = value.get<std::string>();
      else if (value.is_number_integer() || value.is_boolean())
        run.options[key] = value.dump();
      else
        throw Error(ErrorKind::input,
                    table.place(key) + ": '" + key + "' is not a text, a whole number, true or false");
    }
    m_lesson.runs.push_back(std::move(run));
  }

  void claims(const std::string& text, int at) {
    std::size_t begin = 0;
    for (int number = at + 1; begin < text.size(); ++number) {
      const std::size_t end = text.find('\n', begin);
      const std::string claim = trimmed(text.substr(begin, end - begin));
      if (!claim.empty()) m_lesson.claims.push_back({claim, number});
      begin = end + 1;
    }
  }

  void show(const std::string& text, int at) {
    const TomlTable table = parse_toml(text, m_lesson.file, at + 1);
    LessonShow show;
    show.line = at;
    panel(show, table);
    show.kernel = toml_string(table, "kernel", "");
    if (table.has("cta")) show.cta = toml_integer(table, "cta", 0, INT32_MAX);
    if (table.has("i")) show.i = toml_integer(table, "i", 0, INT32_MAX);
    if (table.has("j")) show.j = toml_integer(table, "j", 0, INT32_MAX);
    show.operation = toml_string(table, "operation", "");
    const std::string moment = toml_string(table, "moment", "middle");
    if (moment == "begin")
      show.moment = 0;
    else if (moment == "end")
      show.moment = 1;
    else if (moment == "done")
      show.at_end = true;
    else if (moment != "middle")
      fail(table.line("moment"),
           "moment: '" + moment + "' is not one of begin, middle, end (of the operation), done (of the run)");
    for (const char* key : {"kernel", "i", "j", "moment"})
      if (show.has_stage() && show.operation.empty() && table.has(key) &&
          !(show.at_end && key == std::string("moment")))
        fail(table.line(key), std::string(key) + ": says which 'operation' is meant, and there is none");
    show.point = toml_string(table, "point", "");
    look(show, table);
    LessonBlock block;
    block.kind = LessonBlock::Kind::show;
    block.line = at;
    block.index = m_lesson.shows.size();
    add(std::move(block));
    show.step = m_lesson.steps.size() - 1;
    m_lesson.shows.push_back(std::move(show));
  }

  /// How close the stage is, how much of the run the timeline shows; what a sweep goes over.
  void look(LessonShow& show, const TomlTable& table) {
    using View = LessonShow::View;
    const std::string view = toml_string(table, "view", "two SMs"), timeline = toml_string(table, "timeline", "strips");
    if (view == "one SM")
      show.view = View::one_sm;
    else if (view == "GPU")
      show.view = View::gpu;
    else if (view != "two SMs")
      fail(table.line("view"), "view: '" + view + "' is not one of one SM, two SMs, GPU");
    if (timeline == "tall")
      show.tall_timeline = true;
    else if (timeline != "strips")
      fail(table.line("timeline"), "timeline: '" + timeline + "' is not one of strips, tall");
    if (table.has("zoom")) show.zoom = toml_integer(table, "zoom", 1, 10'000);
    if (show.panel != LessonShow::Panel::sweep) return;
    show.over = toml_string(table, "over");
    show.quantity = toml_string(table, "quantity");
  }

  /// The panel with its runs, and whether it knows the table's keys.
  void panel(LessonShow& show, const TomlTable& table) {
    using Panel = LessonShow::Panel;
    struct Choice {
      const char* name;
      Panel panel;
      std::size_t runs;  // at most
      std::vector<std::string> keys;
    };
    static const std::vector<std::string> of_stage = {"kernel", "cta",   "i",    "j",    "operation",
                                                      "moment", "point", "view", "zoom", "timeline"};
    static const std::vector<Choice> choices = {{"stage", Panel::stage, 2, of_stage},
                                                {"bytes", Panel::bytes, 2, of_stage},
                                                {"roofline", Panel::roofline, 2, {}},
                                                {"occupancy", Panel::occupancy, 4, {}},
                                                {"memory", Panel::memory, 2, {}},
                                                {"softmax", Panel::softmax, 1, {"j"}},
                                                {"sweep", Panel::sweep, 2, {"over", "quantity"}}};
    const std::string name = toml_string(table, "panel", "stage");
    const auto choice = std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.name == name; });
    if (choice == choices.end()) {
      std::string names;
      for (const Choice& other : choices) names += (names.empty() ? "" : ", ") + std::string(other.name);
      fail(table.line("panel"), "panel: '" + name + "' is not one of " + names);
    }
    show.panel = choice->panel;
    std::vector<std::string> known = {"runs", "panel"};
    known.insert(known.end(), choice->keys.begin(), choice->keys.end());
    for (const std::string& key : of_stage)
      if (table.has(key.c_str()) && std::find(known.begin(), known.end(), key) == known.end())
        fail(table.line(key), key + ": says where on a stage to look, and the panel '" + name + "' has none");
    check_toml_keys(table, known);
    show.runs = toml_strings(table, "runs");
    if (show.runs.empty() || show.runs.size() > choice->runs)
      fail(table.line("runs"), "runs: the panel '" + name + "' shows " +
                                   (choice->runs == 1   ? "one run"
                                    : choice->runs == 2 ? "one run or two"
                                                        : "one run to four"));
  }

  LessonText text_of(const TomlTable& table, const char* key) {
    return inlines(toml_string(table, key), table.line(key));
  }

  /// A list of pairs ["text", "text"]; an item may be a lone text when `lone` says so.
  std::vector<std::pair<std::string, std::string>> pairs(const TomlTable& table, const char* key, bool lone) {
    std::vector<std::pair<std::string, std::string>> result;
    if (!table.has(key)) return result;
    const Json& list = table.values[key];
    const auto refuse = [&] {
      throw Error(ErrorKind::input, table.place(key) + ": '" + key + "' is not a list of " +
                                        (lone ? "texts or of pairs of texts" : "pairs of texts"));
    };
    if (!list.is_array()) refuse();
    refuse_more_than_most(list.size(), key, table);
    for (const Json& item : list) {
      if (lone && item.is_string())
        result.emplace_back(item.get<std::string>(), "");
      else if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string())
        result.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
      else
        refuse();
    }
    return result;
  }

  void ask(const std::string& text, int at) {
    step(at);
    const TomlTable table = parse_toml(text, m_lesson.file, at + 1);
    check_toml_keys(table, {"kind", "id", "predict", "question", "hint", "reason", "answer", "unit", "tolerance",
                            "mistakes", "right", "wrong", "items", "descending"});
    LessonAsk ask;
    ask.line = at;
    ask.step = m_lesson.steps.size() - 1;
    const std::string kind = toml_string(table, "kind");
    int nth = 1;
    for (const LessonAsk& other : m_lesson.asks) nth += other.step == ask.step;
    ask.id = key_text(table, "id", toml_string(table, "id", std::to_string(ask.step + 1) + "." + std::to_string(nth)));
    for (const LessonAsk& other : m_lesson.asks)
      if (other.id == ask.id)
        fail(table.line("id"), "a question with the id '" + ask.id + "' stands in line " + std::to_string(other.line));
    ask.predict = toml_bool(table, "predict", false);
    ask.question = text_of(table, "question");
    refuse_empty(toml_string(table, "question"), "the question", table.line("question"));
    const std::vector<std::string> hints = toml_strings(table, "hint");
    refuse_more_than_most(hints.size(), "hint", table);
    for (const std::string& hint : hints) {
      refuse_empty(hint, "a hint", table.line("hint"));
      ask.hints.push_back(inlines(hint, table.line("hint")));
    }
    ask.reason = text_of(table, "reason");
    if (kind == name_of(LessonAsk::Kind::number))
      number(ask, table);
    else if (kind == name_of(LessonAsk::Kind::choice))
      choice(ask, table);
    else if (kind == name_of(LessonAsk::Kind::order))
      order(ask, table);
    else
      fail(table.line("kind"), "kind: '" + kind + "' is not one of number, choice, order");
    refuse_other_kinds(ask.kind, table);
    LessonBlock block;
    block.kind = LessonBlock::Kind::ask;
    block.line = at;
    block.index = m_lesson.asks.size();
    add(std::move(block));
    m_lesson.asks.push_back(std::move(ask));
  }

  void refuse_other_kinds(LessonAsk::Kind kind, const TomlTable& table) const {
    const std::vector<std::string>& known = keys_of(kind);
    for (const auto other : {LessonAsk::Kind::number, LessonAsk::Kind::choice, LessonAsk::Kind::order})
      for (const std::string& key : keys_of(other))
        if (table.has(key.c_str()) && std::find(known.begin(), known.end(), key) == known.end())
          fail(table.line(key), key + ": means nothing to a question of the kind '" + name_of(kind) +
                                    "'; it is one of the kind '" + name_of(other) + "'");
  }

  void number(LessonAsk& ask, const TomlTable& table) {
    ask.kind = LessonAsk::Kind::number;
    ask.answer = toml_string(table, "answer");
    ask.unit = toml_string(table, "unit", "");
    if (ask.unit.size() > kMostKeyBytes || has_control_characters(ask.unit))
      fail(table.line("unit"), "unit: a text of one line and at most " + std::to_string(kMostKeyBytes) + " bytes");
    ask.tolerance = toml_string(table, "tolerance", "2 %");
    for (const auto& [answer, say] : pairs(table, "mistakes", false))
      ask.mistakes.push_back({answer, inlines(say, table.line("mistakes"))});
  }

  void choice(LessonAsk& ask, const TomlTable& table) {
    const int at = table.line("wrong");
    ask.kind = LessonAsk::Kind::choice;
    ask.right = toml_string(table, "right");
    refuse_empty(ask.right, "an option", table.line("right"));
    std::set<std::string> seen = {ask.right};
    for (const auto& [answer, say] : pairs(table, "wrong", true)) {
      refuse_empty(answer, "an option", at);
      if (!seen.insert(answer).second) fail(at, "the option '" + answer + "' stands twice");
      ask.mistakes.push_back({answer, inlines(say, at)});
    }
    if (ask.mistakes.empty()) fail(at, "wrong: a choice needs at least one wrong option");
  }

  void order(LessonAsk& ask, const TomlTable& table) {
    const int at = table.line("items");
    ask.kind = LessonAsk::Kind::order;
    ask.descending = toml_bool(table, "descending", false);
    std::set<std::string> seen;
    for (const auto& [label, expression] : pairs(table, "items", true)) {
      refuse_empty(label, "an item", at);
      if (!seen.insert(label).second) fail(at, "the item '" + label + "' stands twice");
      ask.items.push_back({label, expression});
    }
    if (ask.items.size() < 2) fail(at, "items: an order needs at least two");
    for (const auto& item : ask.items)
      if (item.expression.empty() != ask.items[0].expression.empty())
        fail(at, "items: either all have an expression, or none has");
    if (!table.has("mistakes")) return;
    const Json& list = table.values["mistakes"];
    refuse_more_than_most(list.size(), "mistakes", table);
    const auto is_text = [](const Json& text) { return text.is_string(); };
    for (const Json& item : list) {
      if (!item.is_array() || item.size() != 3 || !std::all_of(item.begin(), item.end(), is_text))
        throw Error(ErrorKind::input,
                    table.place("mistakes") +
                        ": 'mistakes' of an order is a list of [\"item\", \"item that it must not stand "
                        "before\", \"why\"]");
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}})
        if (!seen.count(item[n].get<std::string>()))
          fail(at, "mistakes: '" + item[n].get<std::string>() + "' is not one of the items");
      ask.mistakes.push_back(
          {item[0].get<std::string>(), inlines(item[2].get<std::string>(), at), item[1].get<std::string>()});
    }
  }

  Lesson m_lesson;
  std::vector<std::string_view> m_lines;
  std::size_t m_at = 0;
};

}  // namespace

const char* name_of(LessonAsk::Kind kind) {
  switch (kind) {
    case LessonAsk::Kind::number: return "number";
    case LessonAsk::Kind::choice: return "choice";
    case LessonAsk::Kind::order: break;
  }
  return "order";
}

Lesson parse_lesson(std::string_view text, const std::string& file) { return Parser(text, file).parse(); }

}  // namespace flashscope
