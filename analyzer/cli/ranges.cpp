// What a table is about: ranges of ranks, steps and calls, as people type them and as reports write them, and by what
// it is grouped.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "commands.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr std::string_view kRanksBetween = "...";  // of "1,3,...,511"

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && rest == end && !text.empty();
}

// "40" or "40-42".
template <typename Number>
bool parse_pair(std::string_view text, std::pair<Number, Number>& range) {
    const size_t dash = text.find('-');
    if (!parse_number(text.substr(0, dash), range.first)) {
        return false;
    }
    range.second = range.first;
    return dash == std::string_view::npos || parse_number(text.substr(dash + 1), range.second);
}

[[noreturn]] void refuse(const std::string& option, const std::string& wanted, const std::string& text) {
    throw Unusable(option + " takes " + wanted + ", not '" + printable(text) + "'");
}

template <typename Number>
void refuse_reversed(const std::string& option, const std::string& text, const std::pair<Number, Number>& range) {
    if (range.second < range.first) {
        throw Unusable(fmt::format("{} takes the smaller number of a range first, not '{}'; did you mean {}-{}?",
                                   option, printable(text), range.second, range.first));
    }
}

}  // namespace

std::optional<std::pair<uint64_t, uint64_t>> parse_range(const char* option, const char* example,
                                                         const std::string& text) {
    std::pair<uint64_t, uint64_t> numbers;
    if (text.empty()) {
        return std::nullopt;
    }
    if (!parse_pair(text, numbers)) {
        refuse(option, std::string("a number or a range such as ") + example, text);
    }
    refuse_reversed(option, text, numbers);
    return numbers;
}

std::optional<std::pair<int64_t, int64_t>> parse_steps(const std::string& text) {
    return parse_range("--steps", "10-12", text);
}

std::set<int> parse_ranks(const std::string& text, const char* option) {
    const auto refuse_ranks = [&] { refuse(option, "ranks and ranges such as 3 or 0-7,64", text); };
    std::set<int> ranks;
    int last = -1;
    int step = 0;
    bool between = false;
    for (size_t begin = 0; begin < text.size();) {
        const size_t comma = std::min(text.find(',', begin), text.size());
        const std::string_view part = std::string_view(text).substr(begin, comma - begin);
        begin = comma + 1;
        if (part == kRanksBetween && step > 0 && !between) {
            between = true;
            continue;
        }
        std::pair<int, int> range;
        if (!parse_pair(part, range) || range.first < 0 || range.second > kMostRanks) {
            refuse_ranks();
        }
        refuse_reversed(option, text, range);
        if (between && (range.first <= last || (range.first - last) % step != 0)) {
            refuse_ranks();
        }
        for (int rank = between ? last : range.first; rank < range.first; rank += step) {
            ranks.insert(rank);
        }
        for (int rank = range.first; rank <= range.second; ++rank) {
            ranks.insert(rank);
        }
        step = last < 0 ? 0 : range.first - last;
        last = range.second;
        between = false;
    }
    if (between) {
        refuse_ranks();
    }
    return ranks;
}

void add_by(CommandLine& app, std::string& by, const char* otherwise) {
    app.option("--by", by, fmt::format("a row for each rank, host, role or communicator (default: {})", otherwise));
}

SummaryBy parse_by(const std::string& text, SummaryBy otherwise) {
    static const std::vector<std::string> names = {"role", "rank", "host", "communicator"};  // as in SummaryBy
    const auto found = std::ranges::find(names, text);
    if (text.empty() || found != names.end()) {
        return text.empty() ? otherwise : static_cast<SummaryBy>(found - names.begin());
    }
    const std::string near = nearest_word(text, names);
    throw Unusable(fmt::format("--by takes {}, not '{}'{}", fmt::join(names, ", "), printable(text),
                               near.empty() ? std::string() : "; did you mean " + near + "?"));
}

}  // namespace titan::analyzer
