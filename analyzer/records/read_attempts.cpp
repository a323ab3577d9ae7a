#include "read_attempts.h"

#include <fmt/format.h>

#include <algorithm>

#include "attempts.h"
#include "load_run.h"

namespace titan::analyzer {

// From the newest to the oldest: each tells from which step on the one before was in vain.
Result<std::vector<AttemptTimes>> read_attempts(LoadOptions load, const std::set<int>& ranks,
                                                const std::optional<AttemptTimes>& newest, const Write& note) {
    load.with_journals = true;
    const Result<Attempts> found = attempts_of(load);
    if (!found) {
        return found.error();
    }
    std::vector<std::optional<int32_t>> numbers(found->numbers.begin(), found->numbers.end());
    if (numbers.empty()) {
        numbers.emplace_back();  // no directory tells: the newest
    }
    load.run = found->run;
    std::vector<AttemptTimes> attempts;  // newest first
    const auto keep = [&attempts](const AttemptTimes& attempt) {
        if (attempt.ranks != 0) {
            attempts.push_back(attempt);
        }
    };
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
        if (newest && number->value_or(newest->attempt) == newest->attempt) {
            keep(*newest);
            continue;
        }
        load.attempt = *number;
        const Result<Run> run = load_run(load);
        if (!run) {
            note(fmt::format("attempt {} is left out: {}", number->value_or(0), run.error().text()));
            continue;
        }
        Symbols symbols(Symbols::Search::kNearby);
        RecordReader reader(*run, symbols);
        AttemptReader times(run->attempt, attempts.empty() ? nullptr : &attempts.back());
        reader.visit_ours(ranks, [&](const ProcessRecords& records) { times.add(records); });
        for (const std::string& problem : reader.problems()) {
            note(problem);
        }
        keep(times.times());
    }
    std::reverse(attempts.begin(), attempts.end());
    return attempts;
}

}  // namespace titan::analyzer
