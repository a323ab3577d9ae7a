#include "step_work.h"

#include <algorithm>
#include <array>
#include <optional>

#include "phases.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

struct PartOfPhase {
    std::string_view phase;  // phases.def
    HostPart part;
};
constexpr auto kPartsOfPhases = std::to_array<PartOfPhase>({
    {"checkpoint_load", HostPart::kCheckpoint},
    {"checkpoint_save_sync", HostPart::kCheckpoint},
    {"checkpoint_save_finalization", HostPart::kCheckpoint},
    {"data_loading", HostPart::kDataLoading},
    {"gc", HostPart::kCollector},
    {"compile", HostPart::kCompile},
});

// Host time after a step's last call counts for the next step: `carried_ns` of it.
void add_profile(const Process& process, const StepProfile& step, size_t rank, size_t at, double carried_ns,
                 StepWork& work) {
    const auto add = [&](HostPart part, int64_t spent_ns, bool is_behind = true) {
        const double behind_ns = is_behind ? std::min(static_cast<double>(spent_ns), carried_ns) : 0;
        RankSteps& of_part = work.host_ns[static_cast<size_t>(part)];
        of_part.at(rank, at) += static_cast<double>(spent_ns) - behind_ns;
        of_part.at(rank, at + 1) += behind_ns;
    };
    add(HostPart::kCompile, step.load_ns);
    add(HostPart::kAllocator, step.memory_ns);
    add(HostPart::kOneGap, step.gap_ns);
    add(HostPart::kBusy, step.length_ns() - step.sync_ns - step.nccl_ns);
    work.memory_calls.at(rank, at) = step.memory_calls;
    work.launches.at(rank, at) = step.launches;
    for (uint32_t i = 0; i < step.span_count && step.first_span + i < process.step_spans.size(); ++i) {
        const SpanTime& span = process.step_spans[step.first_span + i];
        if (const auto which = part_of(process.text(span.name))) {
            add(*which, span.busy_ns, static_cast<double>(step.length_ns() - span.ended_ns) < carried_ns);
        }
    }
}

}  // namespace

std::optional<HostPart> part_of(std::string_view span_name) {
    const std::string_view phase = phase_of(span_name);
    const auto* row = std::find_if(kPartsOfPhases.begin(), kPartsOfPhases.end(),
                                   [phase](const PartOfPhase& one) { return one.phase == phase; });
    return row == kPartsOfPhases.end() ? std::nullopt : std::optional(row->part);
}

std::vector<double> RankSteps::of_rank(size_t rank) const {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(rank * steps_);
    return {begin, begin + static_cast<std::ptrdiff_t>(steps_)};
}

std::vector<double> RankSteps::of_step(size_t step) const {
    std::vector<double> values;
    for (size_t rank = 0; rank < ranks(); ++rank) {
        values.push_back(at(rank, step));
    }
    return values;
}

RankSteps RankSteps::of_steps(const std::vector<uint32_t>& steps) const {
    RankSteps some(ranks(), steps.size() + 1);
    for (size_t rank = 0; rank < ranks(); ++rank) {
        for (size_t i = 0; i < steps.size(); ++i) {
            some.at(rank, i) = at(rank, steps[i]);
        }
        some.at(rank, steps.size()) = at(rank, steps_ - 1);
    }
    return some;
}

double RankSteps::middle_of(const std::vector<size_t>& ranks, size_t step) const {
    std::vector<double> values;
    for (const size_t rank : ranks) {
        values.push_back(at(rank, step));
    }
    return median_of(std::move(values));
}

double RankSteps::sum() const {
    double sum = 0;
    for (const double value : values_) {
        sum += value;
    }
    return sum;
}

StepWork StepWork::of_steps(const std::vector<uint32_t>& steps) const {
    StepWork some{work_ns.of_steps(steps),     {},
                  behind_ns.of_steps(steps),   host_late_ns.of_steps(steps),
                  keeps_up_ns.of_steps(steps), memory_calls.of_steps(steps),
                  launches.of_steps(steps),    has_profiles};
    for (const RankSteps& of_part : host_ns) {
        some.host_ns.push_back(of_part.of_steps(steps));
    }
    return some;
}

StepWork step_work(const Run& run, const StepGraph& graph) {
    const RankSteps none(graph.ranks(), graph.steps + 1);
    StepWork work{
        none, std::vector<RankSteps>(static_cast<size_t>(HostPart::kCount), none), none, none, none, none, none, true};
    for (size_t r = 0; r < graph.ranks(); ++r) {
        graph.for_each_step(r, [&](uint32_t first, uint32_t end) {
            const size_t step = graph.nodes[first].step;
            for (uint32_t n = first; n < end; ++n) {
                const StepNode& node = graph.nodes[n];
                const double own_ns = static_cast<double>(node.own_ns);
                work.work_ns.at(r, step) += own_ns;
                work.behind_ns.at(r, step) += static_cast<double>(node.behind_ns);
                work.host_late_ns.at(r, step) += node.host_late ? own_ns : 0;
                work.keeps_up_ns.at(r, step) += node.keeps_up ? own_ns : 0;
            }
        });
        work.work_ns.at(r, graph.steps) = graph.tail_ns[r];
        work.behind_ns.at(r, graph.steps) = work.host_late_ns.at(r, graph.steps) = work.keeps_up_ns.at(r, graph.steps) =
            graph.tail_ns[r];
        const Process& process = run.processes[graph.processes[r]];
        size_t known = 0;
        for (const StepProfile& step : process.steps) {
            const int64_t at = int64_t{step.step} - graph.first_step;
            if (at >= 0 && at < graph.steps) {
                add_profile(process, step, r, static_cast<size_t>(at), graph.carried_of(r, static_cast<size_t>(at)),
                            work);
                ++known;
            }
        }
        work.has_profiles &= known == graph.steps && process.sees.host_calls;
    }
    return work;
}

}  // namespace titan::analyzer
