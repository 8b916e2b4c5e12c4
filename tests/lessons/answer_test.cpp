#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "tests/lessons/support.h"
#include "viz/core/lesson_answer.h"
#include "viz/core/lesson_page.h"
#include "viz/core/lesson_report.h"
#include "viz/core/lesson_state.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

using Verdict = Grade::Verdict;

Question number_question(const Number& right, const std::string& unit, const std::string& tolerance) {
  Question question;
  question.right = right;
  question.unit = unit_or_label(unit);
  question.tolerance = parse_tolerance(tolerance);
  return question;
}

Verdict verdict(const Question& question, const std::string& typed) { return grade_number(question, typed).verdict; }

TEST_CASE("L01: a tolerance is a decimal, not a binary fraction") {
  const Question question = number_question(*Number::decimal("45.8"), "", "0.2");
  for (const char* typed : {"45.6", "46", "46.0", "45,6"}) CHECK(verdict(question, typed) == Verdict::right);
  CHECK(verdict(question, "46.01") == Verdict::wrong);
  CHECK(verdict(question, "45.59") == Verdict::wrong);
}

TEST_CASE("L01: around zero a relative tolerance has a floor, infinity is itself") {
  const Question zero = number_question(Number(0), "", "1 %");
  CHECK(verdict(zero, "0") == Verdict::right);
  CHECK(verdict(zero, "1e-12") == Verdict::right);
  CHECK(verdict(zero, "0.1") == Verdict::wrong);
  const Question infinite = number_question(Number::of(-HUGE_VAL), "", "1 %");
  for (const char* typed : {"-inf", "−∞", "minus infinity", "-infinity"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(infinite, typed) == Verdict::right);
  }
  CHECK(verdict(infinite, "inf") == Verdict::wrong);
  CHECK(verdict(infinite, "-1e300") == Verdict::wrong);
}

TEST_CASE("L01: a tiny answer that is not zero has the tolerance that its question names") {
  for (const Number& tiny : {Number::of(1.1e-16), *Number::decimal("1.1e-16"), Number::of(-1.1e-16)}) {
    const Question question = number_question(tiny, "", "5 %");
    const std::string sign = tiny < Number(0) ? "-" : "";
    CHECK(verdict(question, sign + "1.12e-16") == Verdict::right);
    CHECK(verdict(question, sign + "1.2e-16") == Verdict::wrong);
    CHECK(verdict(question, "5e-10") == Verdict::wrong);
    CHECK(verdict(question, "0") == Verdict::wrong);
  }
}

TEST_CASE("L01: whole numbers are compared as whole numbers, also above 2^53") {
  const Question bytes = number_question(Number(4456448), "B", "0");
  CHECK(verdict(bytes, "4456448") == Verdict::right);
  CHECK(verdict(bytes, "4456449") == Verdict::wrong);
  const Question large = number_question(Number(9007199254740993), "B", "0");
  CHECK(verdict(large, "9007199254740993") == Verdict::right);
  CHECK(verdict(large, "9007199254740992") == Verdict::wrong);
}

TEST_CASE(
    "L01: options are all there, in an order that is never the file's and stays put, and the right text is right") {
  const OpenLesson open = testing::opened(
      "## S\n```ask\nkind = \"choice\"\nid = \"c\"\nquestion = \"?\"\nright = \"zero\"\nwrong = [\"one\", \"two\", "
      "\"{{ 1 + 2 }}\"]\nreason = \"so\"\n```\n");
  const std::vector<std::string> options = {"zero", "one", "two", "3"};
  LearnState state = go_to_lesson({}, &open.lesson);
  const std::vector<std::string> shown = lesson_page(open, state).blocks.at(0).ask.options;
  CHECK(std::is_permutation(shown.begin(), shown.end(), options.begin(), options.end()));
  CHECK(shown != options);
  for (const std::string& option : shown) {
    CAPTURE(option);
    state.asks["c"] = {};
    state.asks["c"].chosen = option;
    state = submit(state, open, 0);
    CHECK(state.asks["c"].right == (option == "zero"));
    CHECK(lesson_page(open, state).blocks.at(0).ask.options == shown);
  }
  for (std::size_t count = 0; count < 9; ++count) {
    const auto order = shuffled(count, "lesson/question");
    CHECK(order == shuffled(count, "lesson/question"));
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    CHECK(std::is_permutation(order.begin(), order.end(), all.begin(), all.end()));
    if (count > 1) CHECK(order != all);
  }
}

TEST_CASE("L01: scores are tenths") {
  CHECK(score_tenths(1) == 10);
  CHECK(score_tenths(2) == 7);
  CHECK(score_tenths(9) == 1);
  CHECK(score_tenths(0) == 0);
}

TEST_CASE("the notations that people type") {
  const Question question = number_question(Number(4456448), "B", "2 %");
  for (const char* typed : {"4456448",
                            "4,456,448",
                            "4 456 448",
                            "4'456'448",
                            "4.456.448",
                            "4_456_448",
                            "4\u00a0456\u00a0448",
                            "4.4 MB",
                            "4,4 MB",
                            "4.46MB",
                            "4.46 mb",
                            "~4.4 MB",
                            "about 4.4 MB",
                            "= 4.4e6",
                            "4.4e6 B",
                            "4.4·10^6",
                            "4.4×10⁶",
                            "4.4x10^6",
                            "4.25 MiB",
                            "4352 KiB",
                            "0.00446 GB",
                            "4.4 million",
                            "4.4 million bytes",
                            "4.4M",
                            "4456k",
                            "4.4 MB of it",
                            "S = 4.4 MB",
                            "2^22 * 1.06",
                            "34 * 2¹⁷",
                            "4456448 bytes.",
                            "1024*64*2*34",
                            "2**22 * 1.06",
                            "4’456’448",
                            "4.25 mebibytes",
                            "4 MB + 456 kB",
                            "4.4 MB!",
                            "4.4 MB in all",
                            "1024*64*2*34 B = 4.46 MB",
                            "17 * 2⁻² * 2²⁰",
                            "4 MiB + 0"}) {
    CAPTURE(std::string(typed));
    // "4 MiB + 0" is no number with a unit, and 4 MiB would be off by more than 2 %.
    CHECK(verdict(question, typed) == (std::string(typed) == "4 MiB + 0" ? Verdict::unreadable : Verdict::right));
  }
  for (const char* typed : {"4.4", "4456448 MB", "44 MB", "4.4 GB", "0", "-4456448", "inf"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(question, typed) == Verdict::wrong);
  }
  for (const char* typed :
       {"", "   ", "lots", "4.4.4 MB", "some MB", "4 m", "6\u0664", "0x440000", "run.bytes", "1/0", "((((", "4.4 µs"}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(question, typed);
    CHECK(grade.verdict == Verdict::unreadable);
    CHECK(!grade.note.empty());
  }
}

TEST_CASE("wide forms and digits of other scripts are numbers, mixed ones are none") {
  Question question;
  question.unit = *unit_named("MB");
  question.right = Number(4'400'000);
  for (const char* typed :
       {"４．４ＭＢ", "４．４　ＭＢ", "＋４．４", "４４／１０", "4．4", "٤٫٤ MB", "۴٫۴", "٤٬٤٠٠٬٠٠٠", "४.४ MB"}) {
    CAPTURE(typed);
    CHECK(grade_number(question, typed).verdict == Verdict::right);
  }
  question.right = Number(-5'000'000);
  CHECK(grade_number(question, "－５").verdict == Verdict::right);
  for (const char* typed : {"4٤", "\xEF\xBC", "\xD9", "４４\xE0\xA5"}) {
    CAPTURE(typed);
    CHECK(grade_number(question, typed).verdict != Verdict::right);
  }
}

TEST_CASE("shares, ratios, times and labels") {
  const Question share = number_question(Number::fraction(1, 3), "%", "2 %");
  for (const char* typed : {"33.3", "33 %", "33.3%", "33 per cent", "33 percent", "1/3", "0.333", "100/3"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(share, typed) == Verdict::right);
  }
  CHECK(verdict(share, "3.3") == Verdict::wrong);
  const Question ratio = number_question(Number::of(2.137), "", "5 %");
  for (const char* typed : {"2.1", "2.1x", "2.1 ×", "2.1 times", "214 %"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(ratio, typed) == Verdict::right);
  }
  const Question time = number_question(Number::of(1097.4), "ms", "2 %");
  for (const char* typed : {"1.1", "1.1 ms", "1097 us", "1,097 µs", "0.0011 s", "1097"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(time, typed) == Verdict::right);
  }
  const Question tiles = number_question(Number(16), "tiles", "0");
  for (const char* typed : {"16", "16 tiles", "16 tile", "2^4"}) CHECK(verdict(tiles, typed) == Verdict::right);
  CHECK(verdict(tiles, "16 MB") == Verdict::unreadable);
  for (const char* typed : {"16 key tiles", "N = 16", "4 x 4", "max(8, 16)", "32·½", "sqrt(256) tiles"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(tiles, typed) == Verdict::right);
  }
  CHECK(verdict(tiles, "16 bananas") == Verdict::unreadable);
  for (const char* typed : {"6.1 % of the SMs", "6.06 percent", "8/132"})
    CHECK(verdict(number_question(Number::fraction(8, 132), "%", "4 %"), typed) == Verdict::right);
  for (const char* typed : {"44", "44-fold", "44 fold", "44 times as many", "44x", "x44", "×44", "a factor of 44",
                            "Factor 44", "44:1", "1101 MB / 25.2 MB", "1.101 GB ÷ 25.2 MB", "1101 MB/25.2 MB = 43.7"})
    CHECK(verdict(number_question(Number::of(43.7), "", "3 %"), typed) == Verdict::right);
  for (const char* typed : {"1", "1 FLOP/byte", "1 FLOPs per byte", "1 flop/B", "1 FLOP per byte"})
    CHECK(verdict(number_question(Number(1), "FLOP per byte", "2 %"), typed) == Verdict::right);
  for (const char* typed : {"0.5577", "exp(1.4147 - 1.9987)", "exp(1.4147)/(exp(1.4147) + exp(1.1830))", "0,558",
                            ".558", "e^(1.4147-1.9987)", "e^-0.584", "e**-0.584"})
    CHECK(verdict(number_question(Number::of(0.55768), "", "1 %"), typed) == Verdict::right);
}

TEST_CASE("a range is no number, and letters ask for numbers; a difference stays one") {
  const Question share = number_question(Number::of(0.33), "%", "5 %");
  for (const char* typed : {"40-45", "40 - 45 %", "40–45", "0.30-0.35", "1,000-2,000"}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(share, typed);
    CHECK(grade.verdict == Verdict::unreadable);
    CHECK(grade.note.find("is a range") != std::string::npos);
  }
  CHECK(verdict(share, "100-67") == Verdict::right);
  CHECK(verdict(share, "1 - 0.67") == Verdict::right);
  CHECK(verdict(number_question(Number(-5), "", "0"), "-5") == Verdict::right);
  CHECK(verdict(number_question(Number(-3), "", "0"), "2*1 - 5") == Verdict::right);
  for (const char* typed : {"N/d", "N^2/(Nd)", "N(N+1)/2", "4Nd + 4N^2", "512/(512+d)"}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(share, typed);
    CHECK(grade.verdict == Verdict::unreadable);
    CHECK(grade.note.find("in place of letters") != std::string::npos);
  }
  CHECK(grade_number(share, "20 or 80").note.find("letters") == std::string::npos);
}

TEST_CASE("superscripts of several digits are one exponent, whatever the digits") {
  CHECK(verdict(number_question(Number(2097152), "", "0"), "2²¹") == Verdict::right);
  CHECK(verdict(number_question(Number(1024), "", "0"), "2¹⁰") == Verdict::right);
  CHECK(verdict(number_question(Number(36), "", "0"), "2² 3²") == Verdict::unreadable);
  CHECK(verdict(number_question(Number(36), "", "0"), "2²·3²") == Verdict::right);
}

TEST_CASE("two quantities of different kinds make no answer") {
  for (const char* typed : {"4 MB / 2 µs", "4 MB + 2 %", "4 MB / 0 MB", "4 MB / 2 MB / 2 MB", "/ 4 MB", "4 MB +"}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(number_question(Number(4), "", "1 %"), typed);
    CHECK(grade.verdict == Verdict::unreadable);
    CHECK(!grade.note.empty());
  }
}

TEST_CASE("a digit too few is told apart from a wrong thought") {
  const Grade close = grade_number(number_question(Number::of(2.732), "", "0.01"), "2.7");
  CHECK(close.verdict == Verdict::wrong);
  CHECK(testing::contains(close.note, "within 0.01"));
  CHECK(testing::contains(grade_number(number_question(Number(2097152), "MB", "2 %"), "2.16").note, "within 2 %"));
  CHECK(testing::contains(grade_number(number_question(Number(136), "tiles", "0"), "135").note, "exact"));
  CHECK(grade_number(number_question(Number(136), "tiles", "0"), "100").note == "");
  // More digits help who rounded the right number, and nobody else.
  CHECK(testing::contains(close.note, "more digits"));
  CHECK(!testing::contains(grade_number(number_question(Number(2097152), "MB", "2 %"), "2.16").note, "more digits"));
  // What is the right number to the digits typed is not taken for a mistake nearby.
  Question pairs = number_question(Number(524800), "pairs", "0");
  pairs.mistakes = {Number(523776)};
  CHECK(grade_number(pairs, "0.52M").mistake == -1);
  CHECK(grade_number(pairs, "523776").mistake == 0);
  CHECK(grade_number(pairs, "523,700").mistake == 0);
  // A guess is compared, and that is all.
  Question guess = number_question(Number(136), "tiles", "0");
  guess.guess = true;
  CHECK(grade_number(guess, "135").note == "");
}

TEST_CASE("a unit left out is asked for, also of a number that is rounded") {
  const Question memory = number_question(Number(1056768), "kB", "0.2 %");
  for (const char* typed : {"1.057", "1.06"}) {
    CAPTURE(std::string(typed));
    CHECK(testing::contains(grade_number(memory, typed).note, "In which unit?"));
  }
  for (const char* typed : {"1.05", "2", "1060"}) {
    CAPTURE(std::string(typed));
    CHECK(!testing::contains(grade_number(memory, typed).note, "In which unit?"));
  }
}

TEST_CASE("a number of MiB written as MB is told apart") {
  const Grade grade = grade_number(number_question(Number(64) * Number(1 << 20), "MB", "1 %"), "64");
  CHECK(grade.verdict == Verdict::wrong);
  CHECK(testing::contains(grade.note, "MiB"));
  CHECK(testing::contains(grade_number(number_question(Number(4) * Number(1 << 30), "GB", "1 %"), "4").note,
                          "1 GB is 1,000,000,000 bytes, 1 GiB is 1,073,741,824."));
}

TEST_CASE("a comma that may group thousands or be a decimal point: how it was read is said, or asked") {
  const Question thousands = number_question(Number(2732), "tiles", "0");
  Grade grade = grade_number(thousands, "2,732");
  CHECK(grade.verdict == Verdict::right);
  CHECK(grade.reading == "Read as 2732.");
  grade = grade_number(thousands, "2,733");
  CHECK(grade.verdict == Verdict::wrong);
  CHECK(grade.reading == "Read as 2733.");
  // Read as thousands it is wrong, read as a decimal comma right: no try, a question back.
  const Question decimal = number_question(Number::fraction(2732, 1000), "µs", "1 %");
  grade = grade_number(decimal, "2,732");
  CHECK(grade.verdict == Verdict::unreadable);
  CHECK(grade.note == "Is that 2732 or 2.732? Type the one you mean.");
  CHECK(grade_number(decimal, "2732").verdict == Verdict::wrong);
  CHECK(grade_number(decimal, "2.732 us").verdict == Verdict::right);
  CHECK(grade_number(decimal, "2,73 us").verdict == Verdict::right);  // two digits group nothing
  // A point is a decimal point, and that is said to whom it fails.
  grade = grade_number(thousands, "2.732");
  CHECK(grade.verdict == Verdict::wrong);
  CHECK(grade.reading == "Read as 2.732: the point is a decimal point here.");
  // Nobody can be in doubt.
  for (const char* clear : {"2732", "2 732", "2'732", "2.732e3", "1,366*2"})
    CHECK(grade_number(thousands, clear).verdict == Verdict::right);
  CHECK(grade_number(number_question(Number(4456448), "B", "0"), "4,456,448").reading == "");
  CHECK(grade_number(number_question(Number::fraction(1, 2), "", "0"), "0,500").reading == "");
  CHECK(grade_number(number_question(Number(1), "", "0"), "exp(0,000)").verdict == Verdict::right);
}

TEST_CASE("two quantities that are understood leave no note of what was not") {
  for (const char* typed : {"5 MB / 1 MB", "1,082 MB / 216.4 MB", "4 MB/0.8 MB"}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(number_question(Number(5), "", "1 %"), typed);
    CHECK(grade.verdict == Verdict::right);
    CHECK(grade.note == "");
  }
}

TEST_CASE("roots and signs as people write them") {
  const std::tuple<const char*, double> cases[] = {{"√2", std::sqrt(2)},
                                                   {"√4", 2},
                                                   {"√25", 5},
                                                   {"sqrt2", std::sqrt(2)},
                                                   {"√2,25", 1.5},
                                                   {"√(25)", 5},
                                                   {"√1,024", 32},
                                                   {"3√4", 6},
                                                   {"1/√4", 0.5},
                                                   {"√ 16", 4},
                                                   {"√4 × √9", 6},
                                                   {"sqrt(16)", 4},
                                                   {"+5", 5},
                                                   {"+ 5", 5},
                                                   {"minus 5", -5},
                                                   {"Minus 5", -5},
                                                   {"plus 5", 5},
                                                   {"about minus 5", -5},
                                                   {"-√4", -2},
                                                   {"√¼", 0.5},
                                                   {"√4.", 2}};
  for (const auto& [typed, right] : cases) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number::of(right), "", "0.001"), typed) == Verdict::right);
  }
  CHECK(verdict(number_question(Number(2'000'000), "MB", "0"), "+2 MB") == Verdict::right);
  for (const char* typed : {"+", "+-5", "minus", "√", "some", "√x", "minus some"}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(number_question(Number(5), "", "0"), typed);
    CHECK(grade.verdict == Verdict::unreadable);
    CHECK(!grade.note.empty());
  }
}

TEST_CASE("small numbers as they are spoken, alone and with a unit") {
  const std::tuple<const char*, double> cases[] = {{"four", 4},
                                                   {"Four times", 4},
                                                   {"fourfold", 4},
                                                   {"four-fold", 4},
                                                   {"twelve", 12},
                                                   {"twice", 2},
                                                   {"twice as many", 2},
                                                   {"double", 2},
                                                   {"it doubles", 2},
                                                   {"three times as much", 3},
                                                   {"half", 0.5},
                                                   {"half as many", 0.5},
                                                   {"one half", 0.5},
                                                   {"three quarters", 0.75},
                                                   {"two thirds", 2.0 / 3},
                                                   {"a quarter", 0.25},
                                                   {"minus four", -4},
                                                   {"a factor of two", 2},
                                                   {"about three", 3},
                                                   {"none", 0},
                                                   {"half of it", 0.5},
                                                   {"one hundred", 100},
                                                   {"a hundred", 100},
                                                   {"a factor of about four", 4},
                                                   {"4096 : 1024", 4},
                                                   {"4.0x fewer", 4}};
  for (const auto& [typed, right] : cases) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number::of(right), "×", "0.0001"), typed) == Verdict::right);
  }
  CHECK(verdict(number_question(Number(4'000'000), "MB", "0"), "four MB") == Verdict::right);
  CHECK(verdict(number_question(Number::fraction(1, 2), "%", "0"), "half") == Verdict::right);
  CHECK(verdict(number_question(Number(4), "products", "0"), "four products") == Verdict::right);
  for (const char* typed : {"often", "someone", "fortress"})
    CHECK(verdict(number_question(Number(4), "", "0"), typed) == Verdict::unreadable);
}

TEST_CASE("larger numbers as they are spoken, parts and mixed fractions") {
  const std::tuple<const char*, double> cases[] = {{"fourteen", 14},
                                                   {"forty", 40},
                                                   {"forty-four", 44},
                                                   {"a hundred times", 100},
                                                   {"hundredfold", 100},
                                                   {"two hundred fifty-six", 256},
                                                   {"two hundred and fifty six times", 256},
                                                   {"a thousand", 1000},
                                                   {"thirty-three thousand one hundred ninety", 33190},
                                                   {"four fifths", 0.8},
                                                   {"4 fifths", 0.8},
                                                   {"a sixth", 1.0 / 6},
                                                   {"two and a half", 2.5},
                                                   {"2½", 2.5},
                                                   {"2 ½", 2.5},
                                                   {"16 2/3", 50.0 / 3},
                                                   {"16⅔", 50.0 / 3},
                                                   {"1/e", std::exp(-1)},
                                                   {"2 / e", 2 * std::exp(-1)},
                                                   {"the same", 1},
                                                   {"unchanged", 1}};
  for (const auto& [typed, right] : cases) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number::of(right), "×", "0.0001"), typed) == Verdict::right);
  }
  CHECK(verdict(number_question(Number::fraction(4, 5), "%", "0"), "eighty percent") == Verdict::right);
  CHECK(verdict(number_question(Number(2'000'000'000), "GB", "0"), "two GB") == Verdict::right);
  // A number in groups is no mixed fraction, and the same of something is no number.
  CHECK(verdict(number_question(Number(2228), "", "0"), "4 456/2") == Verdict::right);
  CHECK(verdict(number_question(Number(1'000'000), "MB", "0"), "the same") == Verdict::unreadable);
  const Grade several = grade_number(number_question(Number(4), "products", "0"), "1, 2, 4 and 5");
  CHECK(several.verdict == Verdict::unreadable);
  CHECK(testing::contains(several.note, "several"));
}

TEST_CASE("FLOPs divide by bytes and by rates") {
  for (const char* typed :
       {"68.7 GFLOP / 25.2 MB", "68.7 GFLOP/25.2 MB", "2.73 GFLOP/MB", "2.7 kFLOP/B", "2726 FLOP/B"})
    CHECK(verdict(number_question(Number(2726), "FLOP per byte", "2 %"), typed) == Verdict::right);
  CHECK(verdict(number_question(Number(64), "µs", "1 %"), "68.7 GFLOP / 1071 TFLOP/s") == Verdict::right);
  CHECK(verdict(number_question(Number(32), "TFLOP/s", "1 %"), "68.7 GFLOP / 2.15 ms") == Verdict::right);
  for (const char* typed : {"68.7 GFLOP", "68.7 GFLOP / 25.2", "25.2 MB / 68.7 GFLOP", "/ MB"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number(2726), "FLOP per byte", "2 %"), typed) == Verdict::unreadable);
  }
}

TEST_CASE("a part of a whole, and the habits of those who write papers") {
  const Question share = number_question(Number::fraction(16, 132), "%", "1 %");
  for (const char* typed : {"16 of 132", "16 out of 132 SMs", "16 of the 132 SMs", "16 in 132", "16/132",
                            "12.1 % of the SMs", "\\frac{16}{132}", "$12.1\\%$"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(share, typed) == Verdict::right);
  }
  CHECK(verdict(number_question(Number(44), "×", "0"), "a factor of 44") == Verdict::right);
  for (const char* typed : {"e^{-0.2365}", "$e^{-0.2365}$", "\\exp(-0.2365)", "\\exp\\left(-0.2365\\right)"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number::of(std::exp(-0.2365)), "", "0.01 %"), typed) == Verdict::right);
  }
  for (const char* typed :
       {"4.4 \\cdot 10^{6}", "4.4 \\times 10^6\\,\\text{B}", "4{,}400{,}000", "4.4\\ \\mathrm{MB}"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number(4'400'000), "MB", "0"), typed) == Verdict::right);
  }
}

TEST_CASE("quantities are reckoned with their units, and what comes out has one") {
  const std::tuple<const char*, double, const char*> cases[] = {{"622 MB - 403 MB", 219e6, "MB"},
                                                                {"(622 MB - 403 MB) / 622 MB", 219.0 / 622, "%"},
                                                                {"219 MB out of 622 MB", 219.0 / 622, "%"},
                                                                {"2180 MB / 4405 GB/s", 2180e6 / 4405e9 * 1e6, "ms"},
                                                                {"2 * 3 MB + 4 kB", 6004e3, "kB"},
                                                                {"√(128 GB / 128)", std::sqrt(1e9), ""},
                                                                {"4 TB/s * 2 µs", 8e6, "MB"}};
  for (const auto& [typed, right, unit] : cases) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number::of(right), unit, "0.01 %"), typed) == Verdict::right);
  }
  for (const char* typed : {"4 MB + 2 µs", "4 MB * 2 MB", "4 MB - 4 MB", "1 + 4 MB"}) {
    CAPTURE(std::string(typed));
    CHECK(verdict(number_question(Number(4), "", "1 %"), typed) == Verdict::unreadable);
  }
}

TEST_CASE("shares and factors are told apart, and each from its reverse") {
  const Question factor = number_question(Number::of(43.7), "×", "3 %");
  for (const auto& [typed, said] : {std::pair{"1/44", "the other way round"},
                                    {"0.023", "the other way round"},
                                    {"98 %", "goes away"},
                                    {"97.7", "goes away"},
                                    {"0.977", "goes away"},
                                    {"2.3 %", "as a share"}}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(factor, typed);
    CHECK(grade.verdict == Verdict::wrong);
    CHECK(testing::contains(grade.note, said));
  }
  CHECK(testing::contains(grade_number(number_question(Number(3), "times", "0"), "200 %").note, "it is more"));
  CHECK(grade_number(factor, "20").note.empty());
  CHECK(verdict(factor, "4370 %") == Verdict::right);
  // What has no "×" or "times" is no factor: of a plain number nothing is known.
  CHECK(grade_number(number_question(Number::of(43.7), "", "3 %"), "98 %").note.empty());
  const Question share = number_question(Number::fraction(2, 17), "%", "3 %");
  for (const auto& [typed, said] : {std::pair{"88 %", "the rest"},
                                    {"88", "the rest"},
                                    {"15/17", "the rest"},
                                    {"8.5", "goes into the whole"},
                                    {"850 %", "goes into the whole"},
                                    {"13.3 %", "against the other"},
                                    {"2/15", "against the other"}}) {
    CAPTURE(std::string(typed));
    const Grade grade = grade_number(share, typed);
    CHECK(grade.verdict == Verdict::wrong);
    CHECK(testing::contains(grade.note, said));
  }
  // A reason of the author's goes before that of the kind.
  Question known = factor;
  known.mistakes = {Number::fraction(1, 44)};
  CHECK(grade_number(known, "1/44").mistake == 0);
  CHECK(grade_number(known, "1/44").note.empty());
}

TEST_CASE("a plain number that is right in another unit: the unit is asked for") {
  const Question time = number_question(Number::of(495), "ms", "2 %");
  Grade grade = grade_number(time, "0.000495");
  CHECK(grade.verdict == Verdict::wrong);
  CHECK(testing::contains(grade.note, "In which unit?"));
  CHECK(verdict(time, "0.000495 s") == Verdict::right);
  CHECK(verdict(time, "0.000495 ms") == Verdict::wrong);
  CHECK(
      testing::contains(grade_number(number_question(Number(4'330'000), "MB", "1 %"), "4330").note, "In which unit?"));
  CHECK(grade_number(number_question(Number(4'330'000), "MB", "1 %"), "5000").note.empty());
}

TEST_CASE("an order that is wrong says which two to look at, or what the author knows about them") {
  Question order;
  order.kind = LessonAsk::Kind::order;
  order.right_items = {"scores", "maximum", "rescale", "add"};
  order.mistake_pairs = {{"add", "rescale"}};
  Grade grade = grade_order(order, {"maximum", "scores", "rescale", "add"});
  CHECK(grade.mistake == -1);
  CHECK(testing::contains(grade.note, "“maximum” and “scores”"));
  grade = grade_order(order, {"scores", "add", "maximum", "rescale"});
  CHECK(grade.mistake == 0);
  CHECK(grade_order(order, {"Scores", "maximum ", "rescale", "add"}).note.empty());
}

TEST_CASE("a long answer that is not understood is not echoed whole") {
  for (const std::string& typed : {std::string(190, 'w'), "1 " + std::string(190, 'w'), std::string(190, '(') + "1"})
    CHECK(grade_number(number_question(Number(5), "", "0"), typed).note.size() < 150);
  Question choice;
  choice.kind = LessonAsk::Kind::choice;
  CHECK(grade_choice(choice, std::string(100'000, 'w')).note.size() < 150);
}

TEST_CASE("known mistakes are recognised in plain bytes too") {
  Question question = number_question(Number(4'194'304), "MB", "2 %");
  question.mistakes = {Number(1'048'576), Number(131'072)};
  for (const char* typed : {"131072", "131,072", "131 kB", "0.131"}) {
    CAPTURE(std::string(typed));
    CHECK(grade_number(question, typed).mistake == 1);
  }
  CHECK(grade_number(question, "1048576").note == "Taken as bytes.");
  CHECK(grade_number(question, "393216").mistake == -1);
  CHECK(testing::contains(grade_number(question, "4,300,000").note, "within 2 %"));
}

TEST_CASE("a known mistake is recognised in rounded digits, where it is nearer than the right answer") {
  Question question = number_question(Number(1'056'768), "kB", "0.2 %");
  question.mistakes = {Number(1'048'576), Number(2'105'344)};
  CHECK(grade_number(question, "1.05 MB").mistake == 0);
  CHECK(grade_number(question, "2.1 MB").mistake == 1);
  CHECK(grade_number(question, "1.06 MB").mistake == -1);  // the right one, in too few digits
  CHECK(grade_number(question, "2.2 MB").mistake == -1);
  CHECK(grade_number(question, "1057 kB").verdict == Verdict::right);
}

TEST_CASE("known mistakes are recognised, and orders compared by their texts") {
  Question question = number_question(Number(100), "", "1 %");
  question.mistakes = {Number(50), Number(200)};
  CHECK(grade_number(question, "200").mistake == 1);
  CHECK(grade_number(question, "70").mistake == -1);
  Question order;
  order.kind = LessonAsk::Kind::order;
  order.right_items = {"a", "b", "c"};
  CHECK(grade_order(order, {"a", "b", "c"}).verdict == Verdict::right);
  CHECK(grade_order(order, {" A ", "b", "C"}).verdict == Verdict::right);
  CHECK(grade_order(order, {"b", "a", "c"}).verdict == Verdict::wrong);
  CHECK(grade_order(order, {"a", "b"}).verdict == Verdict::unreadable);
  CHECK(grade_order(order, {"a", "b", "b"}).verdict == Verdict::unreadable);
}

const char* kAsks =
    "## One\n```run r\n```\n"
    "```ask\nkind = \"number\"\nid = \"n\"\nquestion = \"?\"\nanswer = \"r.bytes\"\nunit = \"MB\"\nhint = [\"a\", "
    "\"b\"]\nreason = \"because {{ r.bytes in MB }}\"\n```\n"
    "```ask\nkind = \"number\"\nid = \"p\"\npredict = true\nquestion = \"?\"\nanswer = \"r.us\"\nunit = \"µs\"\nreason "
    "= \"so\"\n```\n"
    "## Two\n```ask\nkind = \"choice\"\nid = \"c\"\nquestion = \"?\"\nright = \"yes\"\nwrong = [[\"no\", \"really\"], "
    "\"perhaps\"]\nreason = \"so\"\n```\n";

TEST_CASE("a learner's way through a lesson") {
  const OpenLesson open = testing::opened(kAsks);
  REQUIRE(open.faults.empty());
  LearnState state = go_to_lesson({}, &open.lesson);
  CHECK(state.step == 0);
  state.asks["n"].typed = "what";
  state = submit(state, open, 0);
  CHECK(state.asks["n"].tries == 0);  // not understood is no try
  state.asks["n"].typed = "9";
  state = submit(state, open, 0);
  CHECK(state.asks["n"].tries == 1);
  CHECK_FALSE(state.asks["n"].closed());
  state = show_hint(show_hint(show_hint(state, open, 0), open, 0), open, 0);
  CHECK(state.asks["n"].hints == 2);
  state.asks["n"].typed = "4.4";
  state = submit(state, open, 0);
  CHECK(state.asks["n"].right);
  CHECK(state.progress["t"].answers["n"].score_tenths == 7);
  state.asks["p"].typed = "100";
  state = submit(state, open, 1);
  CHECK(state.asks["p"].revealed);  // a prediction is never wrong
  state = go_to_step(state, open.lesson, 99);
  CHECK(state.step == 1);
  state.asks["c"].chosen = "no";
  state = submit(state, open, 2);
  CHECK(grade_of(open.questions[2], state.asks["c"]).mistake == 0);
  CHECK_FALSE(state.progress["t"].done);
  state.asks["c"].chosen = "yes";
  state = submit(state, open, 2);
  CHECK(state.progress["t"].done);
  // Going back lowers nothing, and coming back finds it as it was left.
  state = go_to_step(state, open.lesson, 0);
  CHECK(state.progress["t"].furthest == 1);
  CHECK(state.progress["t"].done);
  state = go_to_lesson(go_to_lesson(state, nullptr), &open.lesson);
  CHECK(state.asks["c"].right);
}

TEST_CASE("what follows a prediction in its step waits for it; a lecturer sees all") {
  const OpenLesson open = testing::opened(std::string(kAsks).replace(0, 7, "## One\n\nbefore\n\n"));
  LearnState state = go_to_lesson({}, &open.lesson);
  CHECK(lesson_page(open, state).blocks.size() == 3);  // the prediction is the last of them
  const OpenLesson early = testing::opened(
      "## S\n```ask\nkind = \"number\"\nid = \"p\"\npredict = true\nquestion = \"?\"\nanswer = \"135\"\nreason = "
      "\"so\"\n```\nIt is 135.\n");
  state = go_to_lesson({}, &early.lesson);
  LessonPage page = lesson_page(early, state);
  CHECK(page.waits);
  CHECK(page.blocks.size() == 1);
  state.asks["p"].typed = "lots";
  state = submit(state, early, 0);
  CHECK(lesson_page(early, state).waits);  // not understood is no guess
  state.asks["p"].typed = "7";
  page = lesson_page(early, submit(state, early, 0));
  CHECK_FALSE(page.waits);
  CHECK(page.blocks.size() == 2);
  CHECK(page.blocks[0].ask.verdict == "You said 7; it is 135.");
  CHECK(lesson_page(early, reveal(state, early, 0)).blocks.size() == 2);  // no guess: seen all the same
  LearnState lecturer = go_to_lesson({}, &early.lesson);
  lecturer.lecturer = true;
  CHECK(lesson_page(early, lecturer).blocks.size() == 2);
}

TEST_CASE("a question says its answer once, and how a number was read") {
  const OpenLesson open = testing::opened(
      "## S\n```ask\nkind = \"choice\"\nid = \"c\"\npredict = true\nquestion = \"?\"\nright = \"much more\"\nwrong = "
      "[\"less\"]\nreason = \"so\"\n```\n"
      "```ask\nkind = \"number\"\nid = \"n\"\nquestion = \"?\"\nanswer = \"2732\"\ntolerance = \"0\"\nreason = "
      "\"so\"\n```\n");
  const LearnState start = go_to_lesson({}, &open.lesson);
  const auto ask_of = [&](const LearnState& state, std::size_t index) {
    return lesson_page(open, state).blocks.at(index).ask;
  };
  for (const char* guess : {"less", "much more", ""}) {
    LearnState state = start;
    state.asks["c"].chosen = guess;
    const PageAsk ask = ask_of(*guess ? submit(state, open, 0) : reveal(state, open, 0), 0);
    CHECK(ask.answer == "much more");  // which its mark in the list shows
    CHECK_FALSE(ask.says_answer);
    CHECK_FALSE(testing::contains(ask.verdict, "much more"));
    CHECK_FALSE(ask.verdict.empty());
    CHECK(ask.good == (std::string(guess) == "much more"));
  }
  LearnState state = reveal(start, open, 0);
  state.asks["n"].typed = "2,733";
  state = submit(state, open, 1);
  PageAsk ask = ask_of(state, 1);
  CHECK(ask.verdict == "Not yet.");
  CHECK(testing::contains(ask.remark.at(0).text, "Read as 2733."));
  LearnState linked = reveal(start, open, 0);  // as a link brings it: what was typed, and that it was graded
  linked.asks["n"].typed = "2,733";
  linked.asks["n"].graded = true;
  CHECK(ask_of(linked, 1).verdict == "Not yet.");
  CHECK(testing::contains(ask_of(linked, 1).remark.at(0).text, "Read as 2733."));
  ask = ask_of(reveal(state, open, 1), 1);
  CHECK(ask.says_answer);
  CHECK(ask.verdict.empty());  // "not yet" beside the answer would be odd
  state.asks["n"].typed = "2,732";
  state = submit(state, open, 1);
  CHECK(ask_of(state, 1).good);
  CHECK(ask_of(state, 1).remark.at(0).text == "Read as 2732.");
}

TEST_CASE("of a wrong number of which nothing else is known the page says on which side it is") {
  const OpenLesson open = testing::opened(
      "## S\n```ask\nkind = \"number\"\nid = \"n\"\nquestion = \"?\"\nanswer = \"4224 * 1024\"\nunit = "
      "\"MB\"\ntolerance = \"1 "
      "%\"\nmistakes = [[\"4194304\", \"forgotten\"]]\nreason = \"so\"\n```\n");
  const auto says = [&](const char* typed) {
    LearnState state = go_to_lesson({}, &open.lesson);
    state.asks["n"].typed = typed;
    return lesson_page(open, submit(state, open, 0)).blocks.at(0).ask;
  };
  CHECK(says("1").verdict == "Not yet: too small.");
  CHECK(says("9 MB").verdict == "Not yet: too large.");
  CHECK(says("4194304").verdict == "Not yet.");
  CHECK(testing::contains(says("33*128 kB").remark.at(0).text, "KiB"));  // and not what 1 % beside it would be
}

TEST_CASE("an answer found after it was shown earns no points, and a lecturer's visit is no progress") {
  const OpenLesson open = testing::opened(kAsks);
  LearnState state = reveal(go_to_lesson({}, &open.lesson), open, 2);
  state.asks["c"].chosen = "yes";
  state = submit(state, open, 2);
  CHECK(state.progress["t"].answers["c"].right);
  CHECK(state.progress["t"].answers["c"].score_tenths == 0);
  LearnState lecturer;
  lecturer.lecturer = true;
  lecturer = go_to_step(go_to_lesson(lecturer, &open.lesson), open.lesson, 1);
  lecturer.asks["c"].chosen = "yes";
  lecturer = submit(lecturer, open, 2);
  CHECK(lecturer.progress.empty());
}

TEST_CASE("a graded report") {
  const OpenLesson open = testing::opened(kAsks);
  const Json report = graded_report(open, {{"n", "4.46 MB"}, {"c", "NO"}}, "a.json");
  CHECK(report["asked"] == 3);
  CHECK(report["answered"] == 2);
  CHECK(report["right"] == 1);
  CHECK(report["score"] == 0.5);
  CHECK(report["asks"][0]["verdict"] == "right");
  CHECK(report["asks"][0]["reason"] == "because 4.46 MB");
  CHECK(report["asks"][1]["verdict"] == "unanswered");
  CHECK(report["asks"][2]["mistake"] == "really");
  CHECK(graded_report(open, {{"n", 4456448}}, "a.json")["asks"][0]["verdict"] == "right");
  CHECK(testing::contains(testing::message_of([&] {
                            graded_report(open, {{"x", 1}}, "a.json");
                          }),
                          "'x' is not one of the questions n, p, c"));
}

}  // namespace
}  // namespace flashscope::viz
