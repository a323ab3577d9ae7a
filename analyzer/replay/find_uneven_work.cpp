// Work that is spread unevenly: over the stages of a pipeline, or over ranks, in each step otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "cause_search.h"
#include "correlation.h"
#include "host/words.h"
#include "layout.h"
#include "robust.h"
#include "what_is_slow.h"

namespace titan::analyzer {
namespace {

constexpr size_t kStepsForUneven = 8;         // what differs between fewer may be chance
constexpr double kUnevenStage = 1.06;         // times the mean of the stages
constexpr double kUnevenStageFilledIn = 1.1;  // where times of other steps were filled in
constexpr double kAboveError = 5;             // times the standard error of the medians
constexpr double kHostsPart = 0.5;            // of what a stage works longer: then its hosts are the cause
constexpr double kAloneAbove = 2;             // times what the other stages differ by
constexpr double kUnevenSpread = 0.12;        // standard deviation of the same work, as a share of it
constexpr double kTogether = 0.6;             // correlation of parts of a step
constexpr double kLargePart = 0.01;           // share of a step
constexpr size_t kMostParts = 48;
constexpr size_t kMostSampled = 32;  // ranks
constexpr double kByChance = 4;      // standard errors

// Nodes of a slot that follow the same call, on ranks that do the same.
struct AlikeNodes {
    std::vector<uint32_t> nodes;     // rank by rank
    std::vector<double> changes_ns;  // of their own times, from one step of a rank to its next
    size_t rank = SIZE_MAX;          // of the newest
};

// How much alike nodes differ from step to step, as a share of their length; and what they would take if they were
// even. What changes once, for all steps behind it, is no length of a sequence.
struct Evenness {
    double spread = 0;  // mean over the nodes' time
    Durations even;
};

// What is left of it without what looks at the GPU make of parts that are always as long: some steps have a look more
// in such a part than others.
double without_looks(double spread_ns, double resolution_ns) {
    return std::sqrt(std::max(0.0, spread_ns * spread_ns - resolution_ns * resolution_ns));
}

Evenness evenness_of(const CauseSearch& search) {
    const StepGraph& graph = search.graph;
    const std::vector<float>& own_ns = search.left().own_ns;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, AlikeNodes> slots;
    for (size_t r = 0; r < search.ranks(); ++r) {
        search.for_each_step(r, [&](uint32_t first, uint32_t end, size_t) {
            for (uint32_t n = first; n < end; ++n) {
                AlikeNodes& alike = slots[{graph.roles[r], graph.nodes[n].slot, graph.follows(n)}];
                if (alike.rank == r) {
                    alike.changes_ns.push_back(static_cast<double>(own_ns[n] - own_ns[alike.nodes.back()]));
                }
                alike.rank = r;
                alike.nodes.push_back(n);
            }
        });
    }
    Evenness result{0, search.recorded()};
    const double resolution_ns = graph.resolution_ns();
    double all_ns = 0;
    for (const auto& [slot, alike] : slots) {
        std::vector<double> own;
        double sum_ns = 0;
        for (const uint32_t n : alike.nodes) {
            own.push_back(static_cast<double>(own_ns[n]));
            sum_ns += std::max(0.0, own.back());
        }
        if (median_of(std::move(own)) <= 0) {
            continue;
        }
        const auto count = static_cast<double>(alike.nodes.size());
        result.spread += count * without_looks(spread_of_changing(alike.changes_ns), resolution_ns);
        all_ns += sum_ns;
        const double mean_ns = sum_ns / count;
        for (const uint32_t n : alike.nodes) {
            result.even.own_ns[n] += static_cast<float>(mean_ns) - own_ns[n];
        }
    }
    result.spread = all_ns > 0 ? result.spread / all_ns : 0;
    return result;
}

// By slot of a rank's large nodes: by how much its own time changes from step to step.
std::vector<std::vector<double>> changes_of(const CauseSearch& search, size_t rank) {
    std::vector<std::vector<double>> parts;
    search.for_each_step(rank, [&](uint32_t first, uint32_t end, size_t step) {
        parts.resize(std::max<size_t>(parts.size(), end - first), std::vector<double>(search.steps(), 0));
        for (uint32_t n = first; n < end; ++n) {
            parts[n - first][step] = static_cast<double>(search.left().own_ns[n]);
        }
    });
    std::erase_if(parts, [&](const std::vector<double>& part) {
        return part.empty() || median_of(part) < kLargePart * search.step_ns();
    });
    parts.resize(std::min(parts.size(), kMostParts));
    for (std::vector<double>& part : parts) {
        std::adjacent_difference(part.begin(), part.end(), part.begin());
        part.erase(part.begin());
    }
    return parts;
}

// How well each large part of a rank's step goes with another one (its forward with its backward): the middle of the
// parts, and of the ranks.
double parts_together(const CauseSearch& search) {
    std::vector<double> of_ranks;
    for (size_t r = 0; r < search.ranks(); r += 1 + search.ranks() / kMostSampled) {
        const std::vector<std::vector<double>> parts = changes_of(search, r);
        std::vector<double> of_parts;
        for (size_t i = 0; i < parts.size(); ++i) {
            double best = 0;
            for (size_t j = 0; j < parts.size(); ++j) {
                best = i == j ? best : std::max(best, correlation(parts[i], parts[j]));
            }
            of_parts.push_back(best);
        }
        if (of_parts.size() > 1) {
            of_ranks.push_back(median_of(std::move(of_parts)));
        }
    }
    return median_of(std::move(of_ranks));
}

// By how much hosts are later with calls of these ranks than with those of all, in the mean over steps: that is no work
// of their stage.
double later_hosts_ns(const CauseSearch& search, const std::vector<size_t>& ranks) {
    double sum_ns = 0;
    for (size_t s = 0; s < search.steps(); ++s) {
        sum_ns += search.work.host_late_ns.middle_of(ranks, s) - median_of(search.work.host_late_ns.of_step(s));
    }
    return sum_ns / static_cast<double>(search.steps());
}

struct Stage {
    int number = 0;
    std::string host;  // of all its ranks; empty: they are on several
    std::vector<size_t> ranks;
    double work_ns = 0;   // of one of its ranks in a step: the median
    double error_ns = 0;  // of that median
};

// Standard error of a median over steps. The ranks of a stage have the same steps: they do not make it surer.
double error_of_median(const std::vector<double>& of_ranks_and_steps, size_t steps) {
    return 1.25 * spread_of(of_ranks_and_steps) / std::sqrt(static_cast<double>(steps));
}

// By number; nothing where a rank is in no pipeline.
std::vector<Stage> stages_of(const CauseSearch& search) {
    std::map<int, std::vector<size_t>> by_number;
    for (size_t r = 0; r < search.ranks(); ++r) {
        by_number[stage_of(search.run, search.rank_number(r))].push_back(r);
    }
    if (by_number.contains(-1)) {
        return {};
    }
    std::vector<Stage> stages;
    for (auto& [number, ranks] : by_number) {
        const std::string& host = search.process(ranks.front()).host;
        bool one_host = true;
        std::vector<double> all;
        for (const size_t r : ranks) {
            const std::vector<double> own = search.left_ns.of_rank(r);
            all.insert(all.end(), own.begin(), own.end());
            one_host &= search.process(r).host == host;
        }
        const double error_ns = error_of_median(all, search.steps());
        stages.push_back(
            {number, one_host ? host : std::string(), std::move(ranks), median_of(std::move(all)), error_ns});
    }
    return stages;
}

// The host whose stages all take longer than each one of the others, where hosts have several and those of a host are
// alike; empty: there is none.
std::string host_of_slow_stages(const std::vector<Stage>& stages) {
    struct OfHost {
        size_t stages = 0;
        double least_ns = 1e300, most_ns = 0;
    };
    std::map<std::string, OfHost> hosts;
    for (const Stage& stage : stages) {
        OfHost& own = hosts[stage.host];
        ++own.stages;
        own.least_ns = std::min(own.least_ns, stage.work_ns);
        own.most_ns = std::max(own.most_ns, stage.work_ns);
    }
    const auto slowest = std::max_element(
        hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.second.least_ns < b.second.least_ns; });
    double apart_ns = 0, next_ns = 0;  // the stages of one host; the most on another host
    for (const auto& [host, own] : hosts) {
        if (host.empty() || own.stages < 2) {
            return {};
        }
        apart_ns = std::max(apart_ns, own.most_ns - own.least_ns);
        next_ns = host == slowest->first ? next_ns : std::max(next_ns, own.most_ns);
    }
    const bool stands_out = hosts.size() > 1 && slowest->second.least_ns - next_ns > kAloneAbove * apart_ns;
    return stands_out ? slowest->first : std::string();
}

// Where work is uneven, how long one rank usually works and how long those who do the same do differs by chance, too.
void leave_what_is_no_chance(CauseSearch& search) {
    std::map<uint32_t, std::vector<double>> of_roles;
    for (size_t r = 0; r < search.ranks(); ++r) {
        const std::vector<double> own = search.left_ns.of_rank(r);
        std::vector<double>& of_role = of_roles[search.graph.roles[r]];
        of_role.insert(of_role.end(), own.begin(), own.end());
    }
    for (size_t r = 0; r < search.ranks(); ++r) {
        const std::vector<double> own = search.left_ns.of_rank(r);
        const double own_ns = median_of(own);
        const double usual_ns = median_of(of_roles.at(search.graph.roles[r]));
        const bool by_chance = std::abs(own_ns - usual_ns) < kByChance * error_of_median(own, search.steps());
        for (size_t s = 0; s < search.steps(); ++s) {
            search.left_ns.at(r, s) = by_chance ? usual_ns : own_ns;
        }
    }
}

}  // namespace

void find_uneven_sequences(CauseSearch& search) {
    // Where not each launch is on record, it is other calls that are seen in each step.
    if (search.ranks() < 2 || search.compared() < kStepsForUneven || !search.sees_each_launch()) {
        return;
    }
    Evenness evenness = evenness_of(search);
    const double together = parts_together(search);
    if (evenness.spread < kUnevenSpread || together < std::max(kTogether, least_correlation(search.compared() - 1))) {
        return;
    }
    SlowCause cause;
    cause.of_class = CauseClass::kUnevenSequences;
    cause.ranks = search.all_ranks();
    cause.evidence.push_back(fmt::format(
        "the same part of a step differs by {:.0f}% (standard deviation) from one step of a rank to the next",
        100 * evenness.spread));
    cause.evidence.push_back(
        fmt::format("parts of a step (forward and backward) take longer together: correlation {:.2f}", together));
    if (search.add(std::move(cause), evenness.even)) {
        leave_what_is_no_chance(search);
    }
}

void find_uneven_stages(CauseSearch& search) {
    if (!search.graph.by_device || search.compared() < kStepsForUneven) {
        return;
    }
    const std::vector<Stage> stages = stages_of(search);
    if (stages.size() < 2) {
        return;
    }
    const auto heaviest = std::max_element(stages.begin(), stages.end(),
                                           [](const Stage& a, const Stage& b) { return a.work_ns < b.work_ns; });
    double mean_ns = 0, error_ns = 0, least_ns = 1e300, most_ns = 0;  // the last two of the other stages
    std::string words;
    for (const Stage& stage : stages) {
        mean_ns += stage.work_ns / static_cast<double>(stages.size());
        error_ns = std::max(error_ns, stage.error_ns);
        words +=
            fmt::format("{}stage {} {}", words.empty() ? "" : ", ", stage.number, fine_duration_text(stage.work_ns));
        if (&stage != &*heaviest) {
            least_ns = std::min(least_ns, stage.work_ns);
            most_ns = std::max(most_ns, stage.work_ns);
        }
    }
    const double least = search.sees_each_launch() ? kUnevenStage : kUnevenStageFilledIn;
    // Below 0: ranks were seen to come late, by more than they work; that tells nothing of their work.
    if (std::min(least_ns, heaviest->work_ns) <= 0 || heaviest->work_ns < least * mean_ns ||
        heaviest->work_ns - mean_ns < kAboveError * error_ns ||
        later_hosts_ns(search, heaviest->ranks) > kHostsPart * (heaviest->work_ns - mean_ns)) {
        return;
    }
    SlowCause cause;
    cause.evidence.push_back("own work in a step (medians): " + words);
    // The first and the last stage have other work, too; why should one in the middle, or all of a host?
    const bool alone = heaviest->work_ns - most_ns > kAloneAbove * (most_ns - least_ns);
    const std::string host = host_of_slow_stages(stages);
    if (!host.empty()) {
        cause.of_class = CauseClass::kSlowHost;
        cause.hosts = {host};
        cause.evidence.emplace_back(
            "all stages of this host take longer than each of the others, and about the same as each other: its GPUs "
            "are slower, or its stages have more layers");
    } else if (heaviest->ranks.size() == 1 && alone && heaviest != stages.begin() && heaviest != stages.end() - 1) {
        cause.of_class = class_of_gpu(search, search.process(heaviest->ranks.front()), cause);
        cause.evidence.push_back(
            fmt::format("rank {} alone is stage {}, and no other rank does the same: it may have more layers instead",
                        search.rank_number(heaviest->ranks.front()), heaviest->number));
    } else {
        cause.of_class = heaviest == stages.end() - 1 && alone ? CauseClass::kLastStage : CauseClass::kUnevenStages;
        cause.stage = heaviest->number;
    }
    std::vector<double> others_ns;
    for (const Stage& stage : stages) {
        if (host.empty() ? &stage != &*heaviest : stage.host != host) {
            others_ns.push_back(stage.work_ns);
            continue;
        }
        for (const size_t r : stage.ranks) {
            cause.ranks.push_back(search.rank_number(r));
        }
    }
    std::sort(cause.ranks.begin(), cause.ranks.end());
    const double usual_ns = median_of(std::move(others_ns));
    RankSteps amounts_ns(search.ranks(), search.steps());
    for (const Stage& stage : stages) {
        for (const size_t r : stage.ranks) {
            for (size_t s = 0; s < search.steps(); ++s) {
                amounts_ns.at(r, s) = search.left_ns.at(r, s) * std::max(0.0, 1 - usual_ns / stage.work_ns);
            }
        }
    }
    search.add(std::move(cause), amounts_ns);
}

}  // namespace titan::analyzer
