// What recognisers of causes share: the steps that they compare, what is not explained yet, and what an edit would
// gain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay.h"
#include "slow_causes.h"
#include "step_work.h"

namespace titan::analyzer {

enum class HowOften : uint8_t { kSeldom, kInMostSteps, kAny };  // which of the causes are looked for

inline constexpr double kLeastShareOfStep = 0.015;  // cost of a cause worth telling

class CauseSearch {
  public:
    // Compares all steps.
    CauseSearch(const Run& run, const StepGraph& graph);
    // Compares these steps alone, in what `other`, which compares all, has left.
    CauseSearch(const CauseSearch& other, std::vector<uint32_t> steps);

    const Run& run;
    const StepGraph& graph;
    const StepWork work;
    RankSteps left_ns;  // own times without what recognised causes take
    std::vector<SlowCause> causes;

    const Process& process(size_t rank) const { return run.processes[graph.processes[rank]]; }
    int rank_number(size_t rank) const { return process(rank).rank; }
    std::vector<int> all_ranks() const;  // their numbers, sorted
    double step_ns() const { return graph.step_ns; }
    size_t ranks() const { return graph.ranks(); }
    // Steps are numbered here from 0 on, in the order in which they are compared.
    size_t compared() const { return compared_.size(); }
    size_t steps() const { return compared() + 1; }  // with what is behind the calls of the last one
    // As the program numbers it.
    int64_t number_of(size_t step) const;
    // Each launch of the steps that are compared was seen.
    bool sees_each_launch() const { return graph.sample == 1 || compared() < graph.steps; }
    // Calls visit(first, end, step) for each step of a rank that is compared and has nodes: they are [first, end).
    template <typename Visit>
    void for_each_step(size_t rank, const Visit& visit) const {
        graph.for_each_step(rank, [&](uint32_t first, uint32_t end) {
            if (const uint32_t step = places_[graph.nodes[first].step]; step != kNoIndex) {
                visit(first, end, size_t{step});
            }
        });
    }
    // By how much the node's own time is longer than usual for nodes of its slot, on ranks that do the same.
    double excess_ns(size_t rank, uint32_t node) const;
    // The usual value of each rank over all steps.
    std::vector<double> usual_of_ranks(const RankSteps& values) const;

    // Durations without so much of the ranks' own times, taken where these are longer than usual; negative ones add.
    Durations without(const RankSteps& amounts_ns) const;
    // Durations without so much, at most, of what is longer than in the rank's other steps, in which `strokes_ns` is 0.
    // Ranks with too few such steps use without(amounts_ns).
    Durations without_strokes(const RankSteps& strokes_ns, const RankSteps& amounts_ns) const;
    // What a step would gain.
    double cost_ns(const Durations& durations) const;
    const Durations& recorded() const { return recorded_; }
    // The same without what told causes take.
    const Durations& left() const { return left_; }

    // How long the steps take that are compared, without what told causes take.
    std::vector<double> lengths_ns() const;
    // Whether these steps (sorted) are longer than the others by so much, or cannot be compared: ranks that work more
    // there and wait less do not make them longer.
    bool are_longer_by(double least_ns, const std::vector<size_t>& steps) const;

    // Adds the cause if it costs enough; then what it takes is explained.
    bool add(SlowCause cause, const RankSteps& amounts_ns);
    bool add(SlowCause cause, const RankSteps& amounts_ns, const Durations& without);
    bool add(SlowCause cause, const Durations& without);
    // The number of a step that is not the first on record; nothing of the first ones.
    std::optional<int64_t> since(size_t step) const;
    // Indexes of ranks that an edit takes much from, and the first step in which.
    std::vector<int> struck_ranks(const RankSteps& amounts_ns) const;
    std::optional<int64_t> since(const RankSteps& amounts_ns) const;

  private:
    Durations typical(const Durations& durations) const;
    std::vector<uint32_t> steps_spared_by(const RankSteps& amounts_ns) const;
    void find_usual_slots();
    Durations without(const RankSteps& amounts_ns, Durations edited) const;
    bool take_strokes(size_t rank, const RankSteps& strokes_ns, Durations& edited) const;

    std::vector<uint32_t> compared_;  // indexes of the graph's steps
    std::vector<uint32_t> places_;    // by the graph's step: index here, kNoIndex: it is not compared
    Durations recorded_;
    Durations left_;
    double replayed_ns_ = 0;
    // Where looks at the GPUs lie further apart than its calls: a step whose parts are as long as they are in the mean.
    // When ranks are seen to come is by chance then, and who seems late by chance would hide what others gain.
    std::optional<double> typical_ns_;
    std::vector<std::vector<float>> usual_slot_ns_;  // by role, then by slot
};

// In the order in which they look. What happens now and then shows in all steps, for the host's record is whole:
void find_host_parts(CauseSearch& search, HowOften how_often);
void find_pauses_of_all(CauseSearch& search);
// All else is looked for in the steps in which each launch was seen, if there are such:
void find_other_jobs(CauseSearch& search);
void find_slow_links(CauseSearch& search);
void find_uneven_sequences(CauseSearch& search);
void find_uneven_stages(CauseSearch& search);
void find_pauses_of_ranks(CauseSearch& search);
void find_slow_ranks(CauseSearch& search);
void find_everyone(CauseSearch& search);
// Again in all steps, of ranks of which nothing was told:
void find_pauses_of_hosts(CauseSearch& search);

}  // namespace titan::analyzer
