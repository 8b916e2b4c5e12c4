#include "viz/core/state_token.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/io/block_mask_io.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

constexpr std::string_view kHead = "fs1";

[[noreturn]] void refuse(const std::string& key, const std::string& text, const std::string& expected) {
  throw Error(ErrorKind::usage, "state: " + key + "=" + text + " is not " + expected);
}

std::string escaped(const std::string& text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    const auto byte = static_cast<unsigned char>(c);
    result += plain ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return result;
}

int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

std::string unescaped(const std::string& key, const std::string& text) {
  std::string result;
  for (std::size_t n = 0; n < text.size(); ++n) {
    if (text[n] != '%') {
      result += text[n];
      continue;
    }
    const int high = n + 2 < text.size() ? hex_digit(text[n + 1]) : -1;
    const int low = n + 2 < text.size() ? hex_digit(text[n + 2]) : -1;
    if (high < 0 || low < 0) refuse(key, text, "text with %XX for what is not a letter, digit or -._~");
    result += static_cast<char>(high * 16 + low);
    n += 2;
  }
  return result;
}

double number(const std::string& key, const std::string& text) {
  if (text == "-inf") return -HUGE_VAL;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool starts = !text.empty() && (text[0] == '-' || text[0] == '.' || (text[0] >= '0' && text[0] <= '9')) &&
                      text.find_first_of("xX") == std::string::npos;
  if (!starts || *end != '\0' || !std::isfinite(value)) refuse(key, text, "a number");
  return value;
}

std::int64_t integer(const std::string& key, const std::string& text) {
  const std::size_t first = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() == first || text.size() > 18 || text.find_first_not_of("0123456789", first) != std::string::npos)
    refuse(key, text, "a whole number");
  return std::strtoll(text.c_str(), nullptr, 10);
}

int small_integer(const std::string& key, const std::string& text) {
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t value = integer(key, text);
  return static_cast<int>(value > kMost ? kMost : value < -kMost ? -kMost : value);  // its range follows in clamp()
}

bool flag(const std::string& key, const std::string& text) {
  if (text != "0" && text != "1") refuse(key, text, "0 or 1");
  return text == "1";
}

/// One field: how it is written and read. `get` gives the text; equal texts are equal values.
struct Field {
  std::string key;
  std::function<std::string(const AppState&)> get;
  std::function<void(AppState&, const std::string& text)> set;
};

// Where a field is: a plain function, so that what is made of one is compiled once a type and not once a field.
template <class Value>
using Reach = Value& (*)(AppState&);

Field whole(const char* key, Reach<int> reach) {
  return {key, [reach](const AppState& s) { return std::to_string(reach(const_cast<AppState&>(s))); },
          [key, reach](AppState& s, const std::string& text) { reach(s) = small_integer(key, text); }};
}
Field yes_no(const char* key, Reach<bool> reach) {
  return {key, [reach](const AppState& s) { return std::string(reach(const_cast<AppState&>(s)) ? "1" : "0"); },
          [key, reach](AppState& s, const std::string& text) { reach(s) = flag(key, text); }};
}
Field real(const char* key, Reach<double> reach) {
  return {key, [reach](const AppState& s) { return number_text(reach(const_cast<AppState&>(s))); },
          [key, reach](AppState& s, const std::string& text) { reach(s) = number(key, text); }};
}
Field words(const char* key, Reach<std::string> reach) {
  return {key, [reach](const AppState& s) { return std::string(reach(const_cast<AppState&>(s))); },
          [reach](AppState& s, const std::string& text) { reach(s) = text; }};
}
Field algorithm(const char* key, std::size_t side) {
  return {key, [side](const AppState& s) { return s.settings.algorithms[side]; },
          [side](AppState& s, const std::string& text) { s.settings.algorithms[side] = algorithm_named(text).name; }};
}
template <class Which, class Where>
Field one_of(const char* key, const std::vector<Entry<Which>>& list, Where reach) {
  return {key,
          [&list, reach](const AppState& s) {
            return std::string(entry_of(list, static_cast<Which>(reach(const_cast<AppState&>(s)))).key);
          },
          [key, &list, reach](AppState& s, const std::string& text) {
            const auto* entry = find_entry(list, text);
            if (!entry) {
              std::string names;
              for (const auto& e : list) names += (names.empty() ? "" : ", ") + std::string(e.key);
              refuse(key, text, "one of " + names);
            }
            reach(s) = static_cast<std::remove_reference_t<decltype(reach(s))>>(entry->which);
          }};
}

const std::vector<Field>& looks_fields() {
  static const std::vector<Field> list = {
      one_of("theme", themes(), [](AppState& s) -> Theme& { return s.looks.theme; }),
      whole("size", [](AppState& s) -> int& { return s.looks.percent; }),
      yes_no("projector", [](AppState& s) -> bool& { return s.looks.projector; }),
  };
  return list;
}

/// What is in front: kept between starts as well.
const std::vector<Field>& layout_fields() {
  static const std::vector<Field> list = {
      one_of("view", views(), [](AppState& s) -> View& { return s.view; }),
      one_of("show", inspectors(), [](AppState& s) -> Inspector& { return s.inspector; }),
      whole("side", [](AppState& s) -> int& { return s.side; }),
      whole("level", [](AppState& s) -> int& { return s.stage_level; }),
      yes_no("tall", [](AppState& s) -> bool& { return s.tall_timeline; }),
      one_of("sweep", sweep_overs(), [](AppState& s) -> SweepOver& { return s.sweep.over; }),
      one_of("of", sweep_shows(), [](AppState& s) -> SweepShow& { return s.sweep.show; }),
      one_of("errors-of", quantities(), [](AppState& s) -> int& { return s.validate_quantity; }),
      whole("errors-in", [](AppState& s) -> int& { return s.validate_set; }),
  };
  return list;
}

/// A preset, made for the lengths; one from a file stays where it is.
Field mask_field() {
  return {"mask",
          [](const AppState& s) {
            const AttentionProblem& p = s.settings.problem;
            return block_mask_choice(p).pattern.empty() ? "" : p.block_mask.mask->name;
          },
          [](AppState& s, const std::string& text) {
            AttentionProblem& p = s.settings.problem;
            const auto& names = block_mask_patterns();
            if (std::find(names.begin(), names.end(), text.substr(0, text.find(':'))) == names.end())
              refuse("mask", text, "local, strided, butterfly or random as PATTERN:DENSITY:SEED:BLOCK");
            const AttentionProblem sizes = clamp(s.settings).problem;
            p.block_mask.mask = std::make_shared<const BlockMask>(
                load_block_mask("state: mask", text, sizes.seqlen_q, sizes.seqlen_k));
          }};
}

std::vector<std::string> pieces(const std::string& text, char between) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    list.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return list;
}

/// "0~300~1000": where each packed sequence begins, and the end.
Field offsets_field(const char* key, std::vector<int> AttentionProblem::*list) {
  return {key,
          [list](const AppState& s) {
            std::string text;
            for (const int row : s.settings.problem.*list) text += (text.empty() ? "" : "~") + std::to_string(row);
            return text;
          },
          [key, list](AppState& s, const std::string& text) {
            (s.settings.problem.*list).clear();
            for (const std::string& row : pieces(text, '~')) (s.settings.problem.*list).push_back(small_integer(key, row));
          }};
}

Field scores_field() {
  return {"scores",
          [](const AppState& s) {
            std::string text;
            for (double score : s.softmax.scores) text += (text.empty() ? "" : "~") + number_text(score);
            return text;
          },
          [](AppState& s, const std::string& text) {
            s.softmax.scores.clear();
            for (const std::string& score : pieces(text, '~')) s.softmax.scores.push_back(number("scores", score));
          }};
}

/// A piece of a list: without the '~' and '.' that separate.
std::string as_piece(const std::string& text) {
  std::string piece;
  for (const char c : escaped(text)) piece += c == '~' ? "%7E" : c == '.' ? "%2E" : std::string(1, c);
  return piece;
}

/// What was answered in the open lesson: for each question id, typed, chosen, order, hints, tries, and flags. How it is
/// graded follows from that.
Field answers_field() {
  constexpr std::size_t kPieces = 7;
  return {"answers",
          [](const AppState& s) {
            std::string text;
            if (s.learn.lesson.empty()) return text;
            for (const auto& [id, ask] : s.learn.asks) {
              if (ask == AskState{}) continue;
              std::string order;
              for (const std::string& item : ask.order) order += (order.empty() ? "" : ".") + as_piece(item);
              const std::string flags =
                  std::string(ask.right ? "r" : "") + (ask.revealed ? "s" : "") + (ask.graded ? "g" : "");
              text += (text.empty() ? "" : "~") + as_piece(id) + "~" + as_piece(ask.typed) + "~" +
                      as_piece(ask.chosen) + "~" + order + "~" + std::to_string(ask.hints) + "~" +
                      std::to_string(ask.tries) + "~" + flags;
            }
            return text;
          },
          [](AppState& s, const std::string& text) {
            const std::vector<std::string> list = pieces(text, '~');
            if (text.empty() || list.size() % kPieces != 0) refuse("answers", text, "a list of answers");
            s.learn.asks.clear();
            for (std::size_t n = 0; n < list.size(); n += kPieces) {
              AskState& ask = s.learn.asks[unescaped("answers", list[n])];
              ask.typed = unescaped("answers", list[n + 1]);
              ask.chosen = unescaped("answers", list[n + 2]);
              if (!list[n + 3].empty())
                for (const std::string& item : pieces(list[n + 3], '.'))
                  ask.order.push_back(unescaped("answers", item));
              ask.hints = std::max(0, small_integer("answers", list[n + 4]));
              ask.tries = std::max(0, small_integer("answers", list[n + 5]));
              ask.right = list[n + 6].find('r') != std::string::npos;
              ask.revealed = list[n + 6].find('s') != std::string::npos;
              ask.graded = list[n + 6].find('g') != std::string::npos;
            }
          }};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> list = [] {
    std::vector<Field> all = {
        algorithm("left", 0),
        algorithm("right", 1),
        whole("batch", [](AppState& s) -> int& { return s.settings.problem.batch; }),
        whole("heads", [](AppState& s) -> int& { return s.settings.problem.heads; }),
        whole("kv-heads", [](AppState& s) -> int& { return s.settings.problem.kv_heads; }),
        whole("seqlen-q", [](AppState& s) -> int& { return s.settings.problem.seqlen_q; }),
        whole("seqlen-k", [](AppState& s) -> int& { return s.settings.problem.seqlen_k; }),
        whole("head-dim", [](AppState& s) -> int& { return s.settings.problem.head_dim; }),
        {"pass", [](const AppState& s) { return std::string(name_of(s.settings.problem.pass)); },
         [](AppState& s, const std::string& text) { s.settings.problem.pass = pass_from_name(text); }},
        {"dtype", [](const AppState& s) { return std::string(name_of(s.settings.problem.dtype)); },
         [](AppState& s, const std::string& text) { s.settings.problem.dtype = dtype_from_name(text); }},
        yes_no("causal", [](AppState& s) -> bool& { return s.settings.problem.causal; }),
        whole("window-left", [](AppState& s) -> int& { return s.settings.problem.window_left; }),
        whole("window-right", [](AppState& s) -> int& { return s.settings.problem.window_right; }),
        mask_field(),
        offsets_field("cu-seqlens", &AttentionProblem::cu_seqlens_q),
        offsets_field("cu-seqlens-k", &AttentionProblem::cu_seqlens_k),
        real("scale", [](AppState& s) -> double& { return s.settings.problem.softmax_scale; }),
        whole("br", [](AppState& s) -> int& { return s.settings.tile.br; }),
        whole("bc", [](AppState& s) -> int& { return s.settings.tile.bc; }),
        whole("stages", [](AppState& s) -> int& { return s.settings.tile.stages; }),
        whole("splits", [](AppState& s) -> int& { return s.settings.tile.splits; }),
        whole("page-size", [](AppState& s) -> int& { return s.settings.tile.page_size; }),
        words("gpu", [](AppState& s) -> std::string& { return s.settings.gpu; }),
        {"start", [](const AppState& s) { return std::string(name_of(s.settings.start)); },
         [](AppState& s, const std::string& text) { s.settings.start = start_from_name(text); }},
        whole("stage-n", [](AppState& s) -> int& { return s.settings.stage_seqlen; }),
        {"t", [](const AppState& s) { return std::to_string(s.playback.t); },
         [](AppState& s, const std::string& text) { s.playback.t = integer("t", text); }},
        yes_no("playing", [](AppState& s) -> bool& { return s.playback.playing; }),
        whole("speed", [](AppState& s) -> int& { return s.playback.speed; }),
        real("from", [](AppState& s) -> double& { return s.timeline.begin; }),
        real("to", [](AppState& s) -> double& { return s.timeline.end; }),
        scores_field(),
        whole("keys", [](AppState& s) -> int& { return s.softmax.bc; }),
        whole("tiles", [](AppState& s) -> int& { return s.softmax.tiles; }),
        yes_no("keys-backward", [](AppState& s) -> bool& { return s.softmax.backward; }),
        {"naive", [](const AppState& s) { return std::string(name_of(s.softmax.naive)); },
         [](AppState& s, const std::string& text) { s.softmax.naive = dtype_from_name(text); }},
        words("lesson", [](AppState& s) -> std::string& { return s.learn.lesson; }),
        whole("step", [](AppState& s) -> int& { return s.learn.step; }),
        yes_no("lecture", [](AppState& s) -> bool& { return s.learn.lecturer; }),
        {"shown", [](const AppState& s) { return s.learn.seeking ? std::string() : s.learn.followed; },
         [](AppState& s, const std::string& text) { s.learn.followed = text; }},
        answers_field(),
        yes_no("help", [](AppState& s) -> bool& { return s.show_help; }),
    };
    all.insert(all.begin(), layout_fields().begin(), layout_fields().end());
    all.insert(all.end(), looks_fields().begin(), looks_fields().end());
    return all;
  }();
  return list;
}

std::string written(const std::vector<Field>& list, const AppState& state) {
  static const AppState defaults;
  std::string token(kHead);
  for (const Field& field : list) {
    const std::string text = field.get(state);
    if (text != field.get(defaults)) token += "," + field.key + "=" + escaped(text);
  }
  return token;
}

void read(const std::vector<Field>& list, std::string_view token, AppState& state) {
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.remove_suffix(1);
  while (!token.empty() && (token.front() == '#' || token.front() == ' ')) token.remove_prefix(1);
  const std::string_view head = token.substr(0, token.find(','));
  if (head != kHead)
    throw Error(ErrorKind::usage, "state: '" + std::string(head.substr(0, 40)) + "' is not the beginning of a state, " +
                                      std::string(kHead) + ",NAME=VALUE,…");
  for (std::size_t at = head.size(); at < token.size();) {
    const std::size_t end = std::min(token.find(',', at + 1), token.size());
    const std::string part(token.substr(at + 1, end - at - 1));
    at = end;
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const Field* field = nullptr;
    for (const Field& f : list)
      if (f.key == key) field = &f;
    if (!field || equals == std::string::npos)
      throw Error(ErrorKind::usage, "state: '" + part.substr(0, 40) + "' is not NAME=VALUE with a name that is known");
    field->set(state, unescaped(key, part.substr(equals + 1)));
  }
}

}  // namespace

std::string token_of(const AppState& state) { return written(fields(), state); }

std::vector<std::string> different_fields(const AppState& a, const AppState& b) {
  std::vector<std::string> names;
  for (const Field& field : fields())
    if (field.get(a) != field.get(b)) names.push_back(field.key);
  return names;
}

AppState state_of_token(std::string_view token, const AppState& base) {
  AppState state;
  state.looks = base.looks;
  state.learn.progress = base.learn.progress;  // what was reached is nothing that a link takes away
  read(fields(), token, state);
  return clamp(state);
}

std::string looks_token(const Looks& looks) {
  AppState state;
  state.looks = looks;
  return written(looks_fields(), state);
}

Looks looks_of_token(std::string_view token) {
  AppState state;
  read(looks_fields(), token, state);
  return clamp(state).looks;
}

std::string layout_token(const AppState& state) { return written(layout_fields(), state); }

AppState with_layout(AppState state, std::string_view token) {
  read(layout_fields(), token, state);
  return clamp(state);
}

}  // namespace flashscope::viz
