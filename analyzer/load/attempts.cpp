#include "attempts.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "choose_logs.h"
#include "discover.h"

namespace titan::analyzer {

namespace {

int32_t number_of(const CandidateGroup& group) {
    return static_cast<int32_t>(std::strtol(group.attempt.c_str(), nullptr, 10));
}

}  // namespace

Result<std::vector<AttemptOf>> attempts_of(const LoadOptions& options) {
    const Result<Discovery> discovery = discover(options.paths);
    if (!discovery) {
        return discovery.error();
    }
    if (options.attempt) {
        return std::vector<AttemptOf>{{options.run, options.attempt}};
    }
    std::string run = options.run;
    const auto newest = std::find_if(discovery->groups.begin(), discovery->groups.end(),
                                     [](const CandidateGroup& group) { return !group.attempt.empty(); });
    if (run.empty() && newest != discovery->groups.end()) {
        run = newest->run;
    }
    std::set<int32_t> numbers;
    for (const CandidateGroup& group : discovery->groups) {
        if (group.run == run && !group.attempt.empty()) {
            numbers.insert(number_of(group));
        }
    }
    if (numbers.empty() && !discovery->logs.empty()) {
        const Result<ChosenLogs> logs = choose_logs(discovery->logs, {});
        for (int32_t number = 0; logs && number <= logs->attempt; ++number) {
            numbers.insert(number);
        }
    }
    std::vector<AttemptOf> attempts;
    for (const int32_t number : numbers) {
        attempts.push_back({run, number});
    }
    if (attempts.empty()) {
        attempts.push_back({run, std::nullopt});
    }
    return attempts;
}

Result<std::vector<AttemptOf>> all_attempts(const LoadOptions& options) {
    const Result<Discovery> discovery = discover(options.paths);
    if (!discovery) {
        return discovery.error();
    }
    std::vector<AttemptOf> attempts;
    for (auto group = discovery->groups.rbegin(); group != discovery->groups.rend(); ++group) {
        if (!group->attempt.empty()) {
            attempts.push_back({group->run, number_of(*group)});
        }
    }
    return attempts;
}

}  // namespace titan::analyzer
