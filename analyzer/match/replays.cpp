#include "replays.h"

#include <fmt/format.h>

namespace titan::analyzer {

std::string ordinal(size_t number) {
    const size_t last = number % 10;
    const bool teen = number / 10 % 10 == 1;
    return fmt::format("{}{}", number,
                       teen || last == 0 || last > 3 ? "th"
                       : last == 1                   ? "st"
                       : last == 2                   ? "nd"
                                                     : "rd");
}

std::string replay_text(const Entry& entry) {
    if (entry.replay == 0) {
        return {};
    }
    return entry.graph == 0 ? fmt::format("replay {}", entry.replay)
                            : fmt::format("replay {} of graph {}", entry.replay, entry.graph);
}

namespace {

// "3rd of 6 collectives in it": the place of a replayed call in its launch, as far as that is recorded.
std::string place_in_replay(const Process& process, const Entry& entry) {
    // The calls of a launch lie side by side.
    const auto [first, end] = process.history.replays.around(entry.place, process.history.size());
    return end - first == 1 ? std::string("the only collective in it")
                            : fmt::format("{} of {} collectives in it", ordinal(entry.place - first + 1), end - first);
}

}  // namespace

Sentence replay_that_holds(const Process& process, const Entry& entry, const Sentence& call) {
    return entry.replay == 0
               ? Sentence()
               : phrase("{}, which holds {} ({})", replay_text(entry), call, place_in_replay(process, entry));
}

uint64_t calls_left_in_replay(const Process& process, const Member& member, uint64_t sequence) {
    const auto first = process.recall(member, sequence);
    if (!first || first->replay == 0) {
        return 0;
    }
    uint64_t count = 0;
    for (auto next = first; next && next->replay == first->replay;) {
        next = process.recall(member, sequence + ++count);
    }
    return count;
}

}  // namespace titan::analyzer
