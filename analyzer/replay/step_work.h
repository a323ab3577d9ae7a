// How long each rank worked in each step by itself, without the time that others held it, and what its host did then.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "run.h"
#include "step_graph.h"

namespace titan::analyzer {

// A number for each rank in each step, and in what is behind the calls of the last one.
class RankSteps {
  public:
    RankSteps(size_t ranks, size_t steps) : steps_(steps), values_(ranks * steps, 0) {}
    size_t ranks() const { return steps_ == 0 ? 0 : values_.size() / steps_; }
    size_t steps() const { return steps_; }
    double& at(size_t rank, size_t step) { return values_[rank * steps_ + step]; }
    double at(size_t rank, size_t step) const { return values_[rank * steps_ + step]; }
    // Calls visit(rank, step, value) for each.
    template <typename Visit>
    void for_each(const Visit& visit) {
        for (size_t i = 0; i < values_.size(); ++i) {
            visit(i / steps_, i % steps_, values_[i]);
        }
    }
    template <typename Visit>
    void for_each(const Visit& visit) const {
        for (size_t i = 0; i < values_.size(); ++i) {
            visit(i / steps_, i % steps_, values_[i]);
        }
    }
    std::vector<double> of_rank(size_t rank) const;
    std::vector<double> of_step(size_t step) const;
    // Only these steps, and what is behind the last one.
    RankSteps of_steps(const std::vector<uint32_t>& steps) const;
    // The median of these ranks in that step.
    double middle_of(const std::vector<size_t>& ranks, size_t step) const;
    const std::vector<double>& all() const { return values_; }
    double sum() const;

  private:
    size_t steps_;
    std::vector<double> values_;
};

// Ways in which a host spends time in a step.
enum class HostPart : uint8_t { kCheckpoint, kDataLoading, kCollector, kCompile, kAllocator, kOneGap, kBusy, kCount };

// What a span of that name is for; nothing where it is none of these.
std::optional<HostPart> part_of(std::string_view span_name);

// The host's time behind the last call of a step counts to the step after it, as the own time of its first call does.
struct StepWork {
    RankSteps work_ns;               // own times of the nodes
    std::vector<RankSteps> host_ns;  // by HostPart
    RankSteps behind_ns;             // of own times: until hosts made their calls
    RankSteps host_late_ns;          // own times at whose end the host was late with the call
    RankSteps keeps_up_ns;           // own times at whose end the GPU followed the host's call at once
    RankSteps memory_calls;
    RankSteps launches;         // kernels, copies and graphs
    bool has_profiles = false;  // of all ranks and steps

    const RankSteps& of(HostPart part) const { return host_ns[static_cast<size_t>(part)]; }
    StepWork of_steps(const std::vector<uint32_t>& steps) const;
};

StepWork step_work(const Run& run, const StepGraph& graph);

}  // namespace titan::analyzer
