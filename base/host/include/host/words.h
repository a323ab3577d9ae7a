// Small pieces of wording that every report shares. They know nothing of a run: those that do are in run_text.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"

namespace titan {

void sort_unique(std::vector<int>& ranks);
// {0,1,2,5} -> "0-2,5". All of them, for programs. Sorted and unique on the way.
std::string rank_ranges(std::vector<int> ranks);
// For people, and however many: "0-2,5", "1,3,...,511", "0,7,8,14,27,30,31,45 and 240 more".
std::string rank_list(std::vector<int> ranks);
// "dp, pp", of more than `most`: "dp, pp and 3 more".
std::string listed(const std::vector<std::string>& words, size_t most = SIZE_MAX, std::string_view separator = ", ");
// "rank 3", "ranks 0-2,5", "no rank".
std::string ranks_text(const std::vector<int>& ranks);
// "350 ms", "4.1 s", "2 min 05 s", "3 h 10 min".
std::string duration_text(int64_t nanoseconds);
// As duration_text, but also exact below 10 ms: "3.2 ms", "40 us".
std::string fine_duration_text(double nanoseconds);
// Local time of day, "14:20:34.506146", for a screen of now; "-" if unknown.
std::string clock_text(int64_t realtime_ns);
// Every other moment: "2026-11-22 08:27:56 +01:00", in this machine's time zone, which is shown; "-" if unknown.
std::string date_text(int64_t realtime_ns);
// "2026-11-22 08:27:56.506146 +01:00".
std::string fine_date_text(int64_t realtime_ns);
// 1234567 -> "1,234,567".
std::string grouped_digits(uint64_t number);
// 1 -> "rank", 2 -> "ranks"; "process" -> "processes".
std::string plural(uint64_t count, std::string_view noun);
// "1 rank", "3 ranks", "1234 ranks"; many_counted: "1,234 ranks".
std::string counted(uint64_t count, std::string_view noun);
std::string many_counted(uint64_t count, std::string_view noun);
// The form of a verb or pronoun that goes with so many: verb_form(2, "is", "are") -> "are".
constexpr const char* verb_form(uint64_t count, const char* one, const char* many) { return count == 1 ? one : many; }
// Names come from strangers' processes: unprintable characters and bytes that are not UTF-8 become '?'.
std::string printable(std::string_view text, Keep keep = Keep::kNothing);
// Orders "node-2" before "node-10".
struct NumbersByValue {
    bool operator()(const std::string& a, const std::string& b) const;
};
// The number of characters, not bytes: names may be in any language.
size_t characters(std::string_view text);
// Lines of at most so many characters, broken at blanks: the first behind `first`, the others behind `rest`.
std::string wrapped(const std::string& text, size_t width, const std::string& first, const std::string& rest);
// At most so many characters; a longer text ends with "...".
std::string shortened(std::string_view text, size_t most);
// The candidate that a misspelt word may stand for; empty: none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);
// The part of a path behind its last '/'.
constexpr std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }
// Quotes the text as one word of a shell command line.
std::string shell_quoted(const std::string& word);
// Letters, digits, '-', '_' and '.': a name that leads out of no directory.
std::string safe_file_name(const std::string& name);
// Six significant digits of a metric: "2.31", "1.5e-07".
std::string number_text(double value);
std::string signal_text(int number);
std::string id_text(uint64_t id);

}  // namespace titan
