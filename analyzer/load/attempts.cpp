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
    for (const CandidateGroup& group : discovery->groups) {
        if (options.run.empty() && !group.attempt.empty() && group.newest_ns > newest_ns) {
            attempts.run = group.run;
            newest_ns = group.newest_ns;
        }
    }
    std::set<int32_t> numbers;
    for (const CandidateGroup& group : discovery->groups) {
        if (group.run == attempts.run && !group.attempt.empty()) {
            numbers.insert(static_cast<int32_t>(std::strtol(group.attempt.c_str(), nullptr, 10)));
        }
    }
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
