#include "host/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>

#include "base/signals.h"
#include "base/utf8.h"

namespace titan {

void sort_unique(std::vector<int>& ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

std::string listed(const std::vector<std::string>& words, size_t most, std::string_view separator) {
    const size_t shown = std::min(words.size(), most);
    const auto end = words.begin() + static_cast<std::ptrdiff_t>(shown);
    const std::string text = fmt::format("{}", fmt::join(words.begin(), end, separator));
    return shown == words.size() ? text : fmt::format("{} and {} more", text, words.size() - shown);
}

std::string rank_ranges(std::vector<int> ranks) {
    sort_unique(ranks);
    std::string text;
    for (size_t begin = 0; begin < ranks.size();) {
        size_t end = begin + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
            ++end;
        }
        text += text.empty() ? "" : ",";
        text += end - begin == 1 ? fmt::format("{}", ranks[begin]) : fmt::format("{}-{}", ranks[begin], ranks[end - 1]);
        begin = end;
    }
    return text;
}

namespace {

// A part of a list of ranks: ranks that follow each other at one distance.
struct RankRun {
    size_t begin = 0;
    size_t count = 1;
    int step = 1;
};

constexpr size_t kShortestStride = 5;  // four are shorter by name

RankRun run_from(const std::vector<int>& ranks, size_t begin) {
    RankRun run{.begin = begin};
    if (begin + 1 == ranks.size()) {
        return run;
    }
    run.step = ranks[begin + 1] - ranks[begin];
    while (begin + run.count < ranks.size() && ranks[begin + run.count] - ranks[begin + run.count - 1] == run.step) {
        ++run.count;
    }
    return run.step == 1 || run.count >= kShortestStride ? run : RankRun{.begin = begin};
}

std::string run_text(const std::vector<int>& ranks, const RankRun& run) {
    const int first = ranks[run.begin];
    const int last = ranks[run.begin + run.count - 1];
    return run.count == 1  ? fmt::format("{}", first)
           : run.step == 1 ? fmt::format("{}-{}", first, last)
                           : fmt::format("{},{},...,{}", first, first + run.step, last);
}

}  // namespace

std::string rank_list(std::vector<int> ranks) {
    constexpr size_t kMostRuns = 12;
    constexpr size_t kShownRuns = 8;
    sort_unique(ranks);
    std::vector<RankRun> runs;
    for (size_t at = 0; at < ranks.size(); at += runs.back().count) {
        runs.push_back(run_from(ranks, at));
    }
    const size_t shown = runs.size() > kMostRuns ? kShownRuns : runs.size();
    std::string text;
    for (size_t i = 0; i < shown; ++i) {
        text += (i == 0 ? "" : ",") + run_text(ranks, runs[i]);
    }
    return shown == runs.size() ? text : fmt::format("{} and {} more", text, ranks.size() - runs[shown].begin);
}

std::string plural(uint64_t count, std::string_view noun) {
    const bool hisses = noun.ends_with("s") || noun.ends_with("ch") || noun.ends_with("sh") || noun.ends_with("x");
    const char* const ending = count == 1 ? "" : hisses ? "es" : "s";
    return std::string(noun) + ending;
}

std::string counted(uint64_t count, std::string_view noun) { return fmt::format("{} {}", count, plural(count, noun)); }

std::string many_counted(uint64_t count, std::string_view noun) {
    return grouped_digits(count) + " " + plural(count, noun);
}

std::string ranks_text(const std::vector<int>& ranks) {
    if (ranks.empty()) {
        return "no rank";
    }
    return plural(ranks.size(), "rank") + " " + rank_list(ranks);
}

std::string duration_text(int64_t nanoseconds) {
    const double seconds = static_cast<double>(std::max<int64_t>(nanoseconds, 0)) * 1e-9;
    if (seconds < 1.0) {
        return fmt::format("{:.0f} ms", seconds * 1e3);
    }
    if (seconds < 120.0) {
        return fmt::format("{:.1f} s", seconds);
    }
    const auto whole = static_cast<int64_t>(seconds);
    return whole < 7200 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                        : fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string fine_duration_text(double nanoseconds) {
    if (nanoseconds >= 1e7 || nanoseconds <= -1e7) {
        return duration_text(static_cast<int64_t>(nanoseconds));
    }
    return std::abs(nanoseconds) >= 999'500 ? fmt::format("{:.1f} ms", nanoseconds / 1e6)
                                            : fmt::format("{:.0f} us", nanoseconds / 1e3);
}

std::string clock_text(int64_t realtime_ns) {
    if (realtime_ns <= 0) {
        return "-";
    }
    const auto seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
    tm parts{};
    localtime_r(&seconds, &parts);
    return fmt::format("{:02}:{:02}:{:02}.{:06}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                       realtime_ns / 1000 % 1'000'000);
}

namespace {

std::string date_with(int64_t realtime_ns, const std::string& fraction) {
    if (realtime_ns <= 0) {
        return "-";
    }
    const auto seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
    tm parts{};
    localtime_r(&seconds, &parts);
    const long minutes = parts.tm_gmtoff / 60;
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}{} {}{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, fraction, minutes < 0 ? "-" : "+",
                       std::abs(minutes) / 60, std::abs(minutes) % 60);
}

}  // namespace

std::string date_text(int64_t realtime_ns) { return date_with(realtime_ns, {}); }

std::string fine_date_text(int64_t realtime_ns) {
    return date_with(realtime_ns, fmt::format(".{:06}", realtime_ns / 1000 % 1'000'000));
}

std::string grouped_digits(uint64_t number) {
    std::string digits = std::to_string(number);
    for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
        digits.insert(static_cast<size_t>(place), 1, ',');
    }
    return digits;
}

std::string printable(std::string_view text, Keep keep) {
    std::string clean(text);
    clean.resize(make_printable(clean.data(), clean.size(), keep));
    return clean;
}

bool NumbersByValue::operator()(const std::string& a, const std::string& b) const {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            const auto number = [&](const std::string& text, size_t& at) {
                const size_t begin = std::min(text.find_first_not_of('0', at), text.size());
                at = begin;
                while (at < text.size() && is_digit(text[at])) {
                    ++at;
                }
                return text.substr(begin, at - begin);
            };
            const std::string left = number(a, i);
            const std::string right = number(b, j);
            if (left != right) {
                return left.size() != right.size() ? left.size() < right.size() : left < right;
            }
        } else if (a[i++] != b[j++]) {
            return a[i - 1] < b[j - 1];
        }
    }
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

size_t characters(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_utf8_character));
}

std::string wrapped(const std::string& text, size_t width, const std::string& first, const std::string& rest) {
    std::string result;
    std::string line = first;
    bool empty_line = true;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        if (!empty_line && characters(line) + 1 + characters(word) > width) {
            result += line + "\n";
            line = rest;
            empty_line = true;
        }
        line += (empty_line ? "" : " ") + word;
        empty_line = false;
        begin = end + 1;
    }
    return result + line + "\n";
}

std::string shortened(std::string_view text, size_t most) {
    constexpr std::string_view kDots = "...";
    if (characters(text) <= most) {
        return std::string(text);
    }
    const size_t kept = most - std::min(most, kDots.size());
    size_t count = 0;
    size_t end = 0;
    while (end < text.size() && (count < kept || !starts_utf8_character(text[end]))) {
        count += starts_utf8_character(text[end]) ? 1 : 0;
        ++end;
    }
    return std::string(text.substr(0, end)) + std::string(kDots.substr(0, std::min(most, kDots.size())));
}

namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0]++;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates) {
    constexpr size_t kMisspelt = 2;
    const std::string* nearest = nullptr;
    size_t least = std::min(kMisspelt, word.size() / 2) + 1;
    for (const std::string& candidate : candidates) {
        if (const size_t distance = edit_distance(word, candidate); distance < least) {
            nearest = &candidate;
            least = distance;
        }
    }
    return nearest == nullptr ? std::string() : *nearest;
}

std::string shell_quoted(const std::string& word) {
    const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
    });
    if (plain && !word.empty()) {
        return word;
    }
    std::string quoted = "'";
    for (const char c : word) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

std::string safe_file_name(const std::string& name) {
    std::string part = name;
    for (char& c : part) {
        const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
        c = plain ? c : '_';
    }
    return part.empty() || part == "." || part == ".." ? "_" : part;
}

// By hand: a table of calls asks for ten million.
std::string id_text(uint64_t id) {
    std::string text(16, '0');
    for (auto digit = text.rbegin(); id != 0; id >>= 4, ++digit) {
        *digit = "0123456789abcdef"[id & 15];
    }
    return text;
}

std::string number_text(double value) { return fmt::format("{:.6g}", value); }

std::string signal_text(int number) {
    const char* const name = signal_name(number);
    return name != nullptr ? name : fmt::format("signal {}", number);
}

}  // namespace titan
