#include "attempts.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "choose_logs.h"
#include "discover.h"

namespace titan::analyzer {

namespace {

int32_t number_of(const CandidateGroup& group) {
    return static_cast<int32_t>(std::strtol(group.attempt.c_str(), nullptr, 10));
}

// The attempt of that directory, or its starts.
void add(const CandidateGroup& group, std::vector<AttemptOf>& attempts) {
    std::vector<Start> starts = starts_of(group);
    for (Start& start : starts) {
        attempts.push_back({group.run, number_of(group), std::make_shared<const Start>(std::move(start))});
    }
    if (starts.empty()) {
        attempts.push_back({group.run, number_of(group)});
    }
}

}  // namespace

Result<std::vector<AttemptOf>> attempts_of(const LoadOptions& options) {
    const Result<Discovery> discovery = discover(options.paths);
    if (!discovery) {
        return discovery.error();
    }
    if (options.start != 0) {
        return std::vector<AttemptOf>{{options.run, options.attempt}};
    }
    const auto is_wanted = [&options](const CandidateGroup& group) {
        return !group.attempt.empty() && (options.run.empty() || group.run == options.run) &&
               (!options.attempt || number_of(group) == *options.attempt);
    };
    const auto newest = std::find_if(discovery->groups.begin(), discovery->groups.end(), is_wanted);
    const std::string run = newest == discovery->groups.end() ? options.run : newest->run;
    std::map<int32_t, const CandidateGroup*> groups;
    for (const CandidateGroup& group : discovery->groups) {
        if (group.run == run && is_wanted(group)) {
            groups.emplace(number_of(group), &group);
        }
    }
    std::vector<AttemptOf> attempts;
    for (const auto& [number, group] : groups) {
        add(*group, attempts);
    }
    if (attempts.empty() && !options.attempt && !discovery->logs.empty()) {
        const Result<ChosenLogs> logs = choose_logs(discovery->logs, {});
        for (int32_t number = 0; logs && number <= logs->attempt; ++number) {
            attempts.push_back({run, number});
        }
    }
    if (attempts.empty()) {
        attempts.push_back({run, options.attempt});
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
            add(*group, attempts);
        }
    }
    return attempts;
}

}  // namespace titan::analyzer
