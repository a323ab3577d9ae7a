// Settings, versions and machines that differ between ranks.
#include <fmt/format.h>

#include <algorithm>

#include "config_differences.h"
#include "steps.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostTold = 8;

// All members came, and it does not go on: they may have been set up so that they cannot meet.
bool may_be_set_up_apart(const Finding& finding) {
    return finding.kind == FindingKind::kCommInitStuck || finding.kind == FindingKind::kStuckInFlight;
}

// How much is logged, and where, hangs nothing.
bool is_harmless(const ConfigDifference& difference) { return difference.name.starts_with("NCCL_DEBUG"); }

// The ranks that a finding is about.
std::set<int> members_of(const Run& run, const Finding& finding) {
    std::set<int> members(finding.ranks.begin(), finding.ranks.end());
    members.insert(finding.victims.begin(), finding.victims.end());
    if (finding.communicator != kNoIndex) {
        for (const MemberRef member : run.communicators[finding.communicator].members) {
            members.insert(run.member(member).global_rank);
        }
    }
    return members;
}

Finding finding_of(const std::vector<ConfigDifference>& differences) {
    Finding finding;
    finding.kind = FindingKind::kConfigDiffers;
    finding.hangs = false;  // what hangs is told; this may be why
    std::set<int> odd;
    for (const ConfigDifference& difference : differences) {
        odd.insert(difference.odd.begin(), difference.odd.end());
    }
    finding.ranks.assign(odd.begin(), odd.end());
    finding.summary = differences.front().text;
    if (differences.size() > 1) {
        finding.summary +=
            fmt::format("; {} more {}", differences.size() - 1, differences.size() == 2 ? "differs" : "differ");
    }
    for (size_t i = 1; i < std::min(differences.size(), kMostTold); ++i) {
        finding.evidence.emplace_back(differences[i].text);
    }
    depends_on(finding, Unknown::kSettings);
    return finding;
}

void warn(const std::vector<ConfigDifference>& differences, std::vector<Warning>& warnings) {
    for (size_t i = 0; i < std::min(differences.size(), kMostTold); ++i) {
        warnings.push_back({WarningKind::kConfigDiffers, differences[i].odd, differences[i].text});
    }
    if (differences.size() > kMostTold) {
        const size_t more = differences.size() - kMostTold;
        warnings.push_back({WarningKind::kConfigDiffers,
                            {},
                            fmt::format("{} more {}: titan-analyze layout --config shows all", more,
                                        more == 1 ? "setting differs" : "settings differ")});
    }
}

}  // namespace

void tell_config(const Run& run, Diagnosis& diagnosis) {
    std::vector<Finding> told;
    std::set<std::string> names;
    for (Finding& finding : diagnosis.findings) {
        if (!may_be_set_up_apart(finding)) {
            continue;
        }
        std::vector<ConfigDifference> differences = config_differences(run, members_of(run, finding));
        if (finding.communicator != kNoIndex && finding.sequence != kNoSequence) {
            const auto of_call = call_differences(run, run.communicators[finding.communicator], finding.sequence);
            differences.insert(differences.begin(), of_call.begin(), of_call.end());
        }
        std::erase_if(differences, [&](const ConfigDifference& difference) {
            return is_harmless(difference) || !names.insert(difference.name).second;
        });
        if (!differences.empty()) {
            told.push_back(finding_of(differences));
        }
    }
    diagnosis.findings.insert(diagnosis.findings.end(), told.begin(), told.end());
    std::vector<ConfigDifference> others = config_differences(run);
    std::erase_if(others, [&](const ConfigDifference& difference) { return names.contains(difference.name); });
    warn(others, diagnosis.warnings);
}

}  // namespace titan::analyzer
