#include "cause_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostSamples = 256;     // of a slot
constexpr double kStruckAsOthers = 0.3;  // of what the rank has that is struck most
constexpr double kStruckAtFirst = 0.25;  // of what the step has that is struck most
constexpr double kLeastShareOfFilledIn = 0.02;
constexpr double kLeastOthers = 5;            // steps that tell what is usual in a rank
constexpr double kLeastShareOfOthers = 0.15;  // and share of all steps
constexpr double kBeyondSpread = 4;           // of what is usual: longer by chance
constexpr double kCoarse = 0.25;              // of the time between calls
constexpr double kSpared = 0.05;  // of what a cause takes from the step that it strikes most: where it takes less

std::vector<std::vector<size_t>> ranks_by_role(const StepGraph& graph) {
    std::vector<std::vector<size_t>> by_role;
    for (size_t r = 0; r < graph.ranks(); ++r) {
        by_role.resize(std::max<size_t>(by_role.size(), graph.roles[r] + 1));
        by_role[graph.roles[r]].push_back(r);
    }
    return by_role;
}

bool looks_are_coarse(const StepGraph& graph) {
    double own_ns = 0, known_ns = 0;
    for (size_t r = 0; r < graph.ranks(); ++r) {
        for (uint32_t n = graph.begin[r]; n < graph.begin[r + 1]; ++n) {
            own_ns += static_cast<double>(std::max(0.0F, graph.nodes[n].own_ns));
            known_ns += static_cast<double>(graph.known_ns[r]);
        }
    }
    return known_ns > kCoarse * own_ns;
}

}  // namespace

CauseSearch::CauseSearch(const Run& of, const StepGraph& steps)
    : run(of),
      graph(steps),
      work(step_work(of, steps)),
      left_ns(work.work_ns),
      compared_(steps.steps),
      recorded_(recorded_durations(steps)),
      left_(recorded_),
      replayed_ns_(replay(steps, recorded_)) {
    std::iota(compared_.begin(), compared_.end(), 0);
    places_ = compared_;
    find_usual_slots();
    if (looks_are_coarse(graph)) {
        typical_ns_ = replay(graph, typical(recorded_));
    }
}

CauseSearch::CauseSearch(const CauseSearch& other, std::vector<uint32_t> steps)
    : run(other.run),
      graph(other.graph),
      work(other.work.of_steps(steps)),
      left_ns(other.left_ns.of_steps(steps)),
      compared_(std::move(steps)),
      places_(graph.steps, kNoIndex),
      recorded_(other.recorded_),
      left_(other.left_),
      replayed_ns_(other.replayed_ns_),
      typical_ns_(other.typical_ns_) {
    for (uint32_t i = 0; i < compared_.size(); ++i) {
        places_[compared_[i]] = i;
    }
    find_usual_slots();
}

int64_t CauseSearch::number_of(size_t step) const {
    return int64_t{graph.first_step} + (step < compared() ? compared_[step] : compared_.back() + 1);
}

void CauseSearch::find_usual_slots() {
    const auto by_role = ranks_by_role(graph);
    usual_slot_ns_.resize(by_role.size());
    for (size_t role = 0; role < by_role.size(); ++role) {
        std::vector<std::vector<double>> samples;
        const size_t all = by_role[role].size() * steps();
        size_t every = std::max<size_t>(1, all / kMostSamples);
        every += every % 2 == 0 && steps() % 2 == 0 ? 1 : 0;  // so that all steps come in turns
        for (const size_t r : by_role[role]) {
            for_each_step(r, [&](uint32_t first, uint32_t end, size_t step) {
                samples.resize(std::max<size_t>(samples.size(), end - first));
                for (uint32_t n = first; n < end && (r * steps() + step) % every == 0; ++n) {
                    samples[graph.nodes[n].slot].push_back(static_cast<double>(graph.nodes[n].own_ns));
                }
            });
        }
        for (std::vector<double>& of_slot : samples) {
            usual_slot_ns_[role].push_back(static_cast<float>(median_of(std::move(of_slot))));
        }
    }
}

double CauseSearch::excess_ns(size_t rank, uint32_t node) const {
    const std::vector<float>& usual = usual_slot_ns_[graph.roles[rank]];
    const size_t slot = graph.nodes[node].slot;
    return static_cast<double>(std::max(0.0F, recorded_.own_ns[node] - (slot < usual.size() ? usual[slot] : 0)));
}

std::vector<int> CauseSearch::all_ranks() const {
    std::vector<int> all;
    for (size_t r = 0; r < ranks(); ++r) {
        all.push_back(rank_number(r));
    }
    std::sort(all.begin(), all.end());
    return all;
}

std::vector<double> CauseSearch::usual_of_ranks(const RankSteps& values) const {
    std::vector<double> usual;
    for (size_t r = 0; r < ranks(); ++r) {
        usual.push_back(median_of(values.of_rank(r)));
    }
    return usual;
}

Durations CauseSearch::without(const RankSteps& amounts_ns) const { return without(amounts_ns, recorded_); }

Durations CauseSearch::without(const RankSteps& amounts_ns, Durations edited) const {
    for (size_t r = 0; r < ranks(); ++r) {
        for_each_step(r, [&](uint32_t first, uint32_t end, size_t step) {
            double longer_ns = 0;
            double own_ns = 0;
            for (uint32_t n = first; n < end; ++n) {
                longer_ns += excess_ns(r, n);
                own_ns += static_cast<double>(recorded_.own_ns[n]);
            }
            const double amount_ns = std::min(amounts_ns.at(r, step), own_ns);
            const double of_excess = amount_ns > 0 && longer_ns > 0 ? std::min(1.0, amount_ns / longer_ns) : 0;
            const double rest_ns = own_ns - of_excess * longer_ns;
            const double scale = rest_ns > 0 ? (own_ns - amount_ns) / rest_ns : 0;
            for (uint32_t n = first; amount_ns != 0 && n < end; ++n) {
                const double kept_ns = static_cast<double>(recorded_.own_ns[n]) - of_excess * excess_ns(r, n);
                edited.own_ns[n] = static_cast<float>(kept_ns * scale);
            }
        });
        edited.tail_ns[r] = std::max(0.0, edited.tail_ns[r] - amounts_ns.at(r, compared()));
    }
    return edited;
}

// False where too few steps tell what is usual.
bool CauseSearch::take_strokes(size_t rank, const RankSteps& strokes_ns, Durations& edited) const {
    std::vector<std::vector<double>> usual;  // own times by slot
    size_t others = 0;
    for_each_step(rank, [&](uint32_t first, uint32_t end, size_t step) {
        if (strokes_ns.at(rank, step) == 0) {
            ++others;
            usual.resize(std::max<size_t>(usual.size(), end - first));
            for (uint32_t n = first; n < end; ++n) {
                usual[graph.nodes[n].slot].push_back(static_cast<double>(recorded_.own_ns[n]));
            }
        }
    });
    if (static_cast<double>(others) < std::max(kLeastOthers, kLeastShareOfOthers * static_cast<double>(compared()))) {
        return false;
    }
    std::vector<float> usual_ns;
    std::vector<double> most_ns;
    for (const std::vector<double>& of_slot : usual) {
        usual_ns.push_back(static_cast<float>(median_of(of_slot)));
        most_ns.push_back(usual_ns.back() + kBeyondSpread * spread_of(of_slot));
    }
    for_each_step(rank, [&](uint32_t first, uint32_t end, size_t step) {
        const auto longer_ns = [&](uint32_t n) {
            const size_t slot = graph.nodes[n].slot;
            const bool is_longer = slot < most_ns.size() && recorded_.own_ns[n] > most_ns[slot];
            return is_longer ? recorded_.own_ns[n] - usual_ns[slot] : 0;
        };
        double all_ns = 0;
        for (uint32_t n = first; n < end; ++n) {
            all_ns += static_cast<double>(longer_ns(n));
        }
        const double share = all_ns > 0 ? std::min(1.0, strokes_ns.at(rank, step) / all_ns) : 0;
        for (uint32_t n = first; share > 0 && n < end; ++n) {
            edited.own_ns[n] -= static_cast<float>(share) * longer_ns(n);
        }
    });
    return true;
}

Durations CauseSearch::without_strokes(const RankSteps& strokes_ns, const RankSteps& amounts_ns) const {
    Durations edited = recorded_;
    RankSteps of_others = amounts_ns;
    for (size_t r = 0; r < ranks(); ++r) {
        if (take_strokes(r, strokes_ns, edited)) {
            for (size_t s = 0; s < compared(); ++s) {
                of_others.at(r, s) = 0;
            }
        }
    }
    return without(of_others, std::move(edited));
}

double CauseSearch::cost_ns(const Durations& durations) const {
    if (replayed_ns_ <= 0) {
        return 0;
    }
    double gain_ns = replayed_ns_ - replay(graph, durations);
    if (typical_ns_) {
        gain_ns = std::max(gain_ns, *typical_ns_ - replay(graph, typical(durations)));
    }
    const double all = static_cast<double>(graph.steps) / static_cast<double>(compared());
    return all * graph.step_ns * gain_ns / replayed_ns_;
}

// Each node as long as those in its place in the rank's steps are in the mean.
Durations CauseSearch::typical(const Durations& durations) const {
    Durations mean = durations;
    for (size_t r = 0; r < ranks(); ++r) {
        std::vector<double> own_ns, run_ns, count;
        const auto each = [&](const auto& visit) {
            for (uint32_t n = graph.begin[r]; n < graph.begin[r + 1]; ++n) {
                visit(n, graph.nodes[n].slot);
            }
        };
        each([&](uint32_t n, size_t slot) {
            for (std::vector<double>* const of_slot : {&own_ns, &run_ns, &count}) {
                of_slot->resize(std::max(of_slot->size(), slot + 1));
            }
            own_ns[slot] += static_cast<double>(durations.own_ns[n]);
            run_ns[slot] += static_cast<double>(durations.run_ns[n]);
            ++count[slot];
        });
        each([&](uint32_t n, size_t slot) {
            mean.own_ns[n] = static_cast<float>(own_ns[slot] / count[slot]);
            mean.run_ns[n] = static_cast<float>(run_ns[slot] / count[slot]);
        });
    }
    return mean;
}

std::vector<double> CauseSearch::lengths_ns() const {
    const std::vector<double> all_ns = replayed_steps(graph, left_);
    std::vector<double> lengths_ns;
    for (const uint32_t step : compared_) {
        lengths_ns.push_back(all_ns[step]);
    }
    return lengths_ns;
}

bool CauseSearch::are_longer_by(double least_ns, const std::vector<size_t>& steps) const {
    const std::vector<double> all_ns = lengths_ns();
    std::vector<double> these_ns, others_ns;
    for (size_t s = 1; s < all_ns.size(); ++s) {  // the first one has no beginning on record
        (std::binary_search(steps.begin(), steps.end(), s) ? these_ns : others_ns).push_back(all_ns[s]);
    }
    return these_ns.empty() || others_ns.empty() ||
           median_of(std::move(these_ns)) - median_of(std::move(others_ns)) >= least_ns;
}

bool CauseSearch::add(SlowCause cause, const Durations& without) {
    cause.cost_ns = cost_ns(without);
    const double least = sees_each_launch() ? kLeastShareOfStep : kLeastShareOfFilledIn;
    if (cause.cost_ns < least * graph.step_ns) {
        return false;
    }
    for (size_t n = 0; n < left_.own_ns.size(); ++n) {
        left_.own_ns[n] -= recorded_.own_ns[n] - without.own_ns[n];
    }
    causes.push_back(std::move(cause));
    return true;
}

// What a cause takes from a step may show in the step behind, too.
std::vector<uint32_t> CauseSearch::steps_spared_by(const RankSteps& amounts_ns) const {
    std::vector<double> of_steps(steps(), 0);
    amounts_ns.for_each([&](size_t, size_t s, double ns) { of_steps[s] += ns; });
    const double least_ns = kSpared * *std::max_element(of_steps.begin(), of_steps.end() - 1);
    std::vector<uint32_t> spared;
    for (size_t s = 0; s < compared(); ++s) {
        if (of_steps[s] <= least_ns && (s == 0 || of_steps[s - 1] <= least_ns)) {
            spared.push_back(compared_[s]);
        }
    }
    return spared;
}

bool CauseSearch::add(SlowCause cause, const RankSteps& amounts_ns) {
    return add(std::move(cause), amounts_ns, without(amounts_ns));
}

bool CauseSearch::add(SlowCause cause, const RankSteps& amounts_ns, const Durations& without) {
    cause.spared_steps = steps_spared_by(amounts_ns);
    if (!add(std::move(cause), without)) {
        return false;
    }
    left_ns.for_each([&](size_t r, size_t s, double& ns) { ns = std::max(0.0, ns - amounts_ns.at(r, s)); });
    return true;
}

std::optional<int64_t> CauseSearch::since(size_t step) const {
    return step <= 1 ? std::nullopt : std::optional<int64_t>(number_of(step));
}

std::vector<int> CauseSearch::struck_ranks(const RankSteps& amounts_ns) const {
    std::vector<double> sums(ranks(), 0);
    amounts_ns.for_each([&](size_t r, size_t, double ns) { sums[r] += ns; });
    const double most_ns = *std::max_element(sums.begin(), sums.end());
    std::vector<int> struck;
    for (size_t r = 0; r < ranks(); ++r) {
        if (sums[r] > kStruckAsOthers * most_ns) {
            struck.push_back(rank_number(r));
        }
    }
    std::sort(struck.begin(), struck.end());
    return struck;
}

std::optional<int64_t> CauseSearch::since(const RankSteps& amounts_ns) const {
    double most_ns = 0;
    size_t first = compared();  // what is behind the last step is no beginning
    amounts_ns.for_each(
        [&](size_t, size_t s, double ns) { most_ns = s < compared() ? std::max(most_ns, ns) : most_ns; });
    amounts_ns.for_each(
        [&](size_t, size_t s, double ns) { first = ns > kStruckAtFirst * most_ns ? std::min(first, s) : first; });
    return first == compared() ? std::nullopt : since(first);
}

}  // namespace titan::analyzer
