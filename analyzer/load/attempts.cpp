#include "attempts.h"

#include <cstdlib>
#include <set>

#include "choose_logs.h"
#include "discover.h"

namespace titan::analyzer {

Result<Attempts> attempts_of(const LoadOptions& options) {
    const Result<Discovery> discovery = discover(options.paths);
    if (!discovery) {
        return discovery.error();
    }
    Attempts attempts;
    attempts.run = options.run;
    if (options.attempt) {
        attempts.numbers = {*options.attempt};
        return attempts;
    }
    int64_t newest_ns = INT64_MIN;
    const auto for_each = [&](const auto& take) {
        for (const CandidateGroup& group : discovery->groups) {
            take(group.run, group.attempt, group.newest_ns);
        }
        for (const JournalFile& journal : discovery->journals) {
            take(journal.run, journal.attempt, journal.modified_ns);
        }
    };
    for_each([&](const std::string& run, const std::string& attempt, int64_t written_ns) {
        if (options.run.empty() && !attempt.empty() && written_ns > newest_ns) {
            attempts.run = run;
            newest_ns = written_ns;
        }
    });
    std::set<int32_t> numbers;
    for_each([&](const std::string& run, const std::string& attempt, int64_t) {
        if (run == attempts.run && !attempt.empty()) {
            numbers.insert(static_cast<int32_t>(std::strtol(attempt.c_str(), nullptr, 10)));
        }
    });
    if (numbers.empty() && !discovery->logs.empty()) {
        const Result<ChosenLogs> newest = choose_logs(discovery->logs, {});
        for (int32_t number = 0; newest && number <= newest->attempt; ++number) {
            numbers.insert(number);
        }
    }
    attempts.numbers.assign(numbers.begin(), numbers.end());
    return attempts;
}

}  // namespace titan::analyzer
