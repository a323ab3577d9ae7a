// The sections of the page, each from what a rung below knows. Ranks are ranges ("0-3,7"); times are nanoseconds.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "clocks.h"
#include "evidence.h"
#include "finding.h"
#include "host/json_value.h"
#include "named_stacks.h"
#include "report_parts.h"
#include "run.h"
#include "slow_causes.h"
#include "step_metrics.h"
#include "summary.h"
#include "timing.h"

namespace titan::analyzer {

// Texts that many rows share: rows hold their numbers.
class SharedTexts {
  public:
    uint32_t number_of(const std::string& text) {
        const auto [known, inserted] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
        if (inserted) {
            texts_.push_back(text);
        }
        return known->second;
    }
    Json json() const { return texts_; }

  private:
    std::map<std::string, uint32_t> numbers_;
    std::vector<std::string> texts_;
};

// All of them, sorted.
inline std::set<int> ranks_of(const Process& process) {
    std::set<int> ranks;
    for (uint32_t row = 0; row < process.members.size(); ++row) {
        ranks.insert(rank_of(process, row));
    }
    return ranks.empty() ? std::set<int>{process.rank} : ranks;
}

// A section that has nothing to show says why.
inline Json nothing_because(std::string_view why) { return {{"none", why}}; }

// A row for each rank: where it runs, whether it lives, what it does.
Json ranks_section(const Run& run);
// How many calls each rank has made, started and finished on each communicator; ranks that are alike are one row, those
// that are furthest behind come first.
Json calls_section(const Run& run);
// The wait-for graph; calls that wait alike are one node.
Json waits_section(const Evidence& evidence);
// The newest calls of each rank on one clock.
Json around_section(const Evidence& evidence, const Clocks& clocks, const std::vector<Finding>& findings);
// How late ranks came, step by step.
Json lateness_section(const Timing& timing, const SlowCauses& slow);
Json durations_section(const Summary& summary);
Json sizes_section(const Summary& summary);
// What the time of the steps went into.
Json steps_section(const Run& run);
Json metrics_section(const StepMetrics& metrics);
Json stacks_section(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems);
Json health_section(const Run& run);
// What differs between ranks.
Json settings_section(const Run& run);

}  // namespace titan::analyzer
