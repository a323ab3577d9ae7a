// How much of the device's progress is observed, so that observing takes no more than a share of the job's time
// (TITANTRACE_BUDGET). Pure arithmetic: units of work that ended go in, the plan of those to come comes out.
//
// A unit is a step that the program marks, or some hundred launches where it marks none. Every launch has marks of one
// of two kinds. *Full* marks are stream writes: they are the best evidence, and take time of the GPU. *Light* marks are
// events without times: only the calling thread pays for them.
//
// The units with full marks are one of N, the others have light ones. N is a power of two, and the units of a larger N
// are among those of a smaller: ranks that choose different N still meet in the same steps. Where light marks of each
// launch are too dear, one launch of M has them.
//
// Two rules keep the budget: N and M fit to the sum of the last units, and a unit whose full marks would take more than
// was saved up for it has as many as that pays for. The second one holds whatever the program does.
#pragma once

#include <cstdint>

namespace titan::tracer {

// What the marks around one launch take, in nanoseconds.
struct MarkCosts {
    uint32_t full_gpu_ns;
    uint32_t full_host_ns;
    uint32_t light_host_ns;
};

// Measured on an H200 on 2026-11-26 (benchmarks/results). Host times are the means of two runs that differ by 1.5 us.
inline constexpr MarkCosts kMarkCosts{.full_gpu_ns = 3500, .full_host_ns = 1100, .light_host_ns = 600};

struct ObservedUnit {
    uint64_t took_ns;  // 0: the clock stands still
    uint64_t launches;
    uint64_t full;  // launches with full marks
};

struct ObservingPlan {
    uint32_t full_of;   // one unit of so many has full marks, a power of two; 0: none
    uint32_t light_of;  // one launch of so many has marks in the other units, a power of two

    bool operator==(const ObservingPlan&) const = default;
};

class Budget {
  public:
    static constexpr uint32_t kRemembered = 32;  // units that the plan is made for
    // Larger ones could not be kept: 32 units must fit into the 100 within which no rank may be over its budget.
    static constexpr uint32_t kMostUnits = 32;
    static constexpr uint32_t kMostLaunches = 1024;
    // The first units have full marks, whatever they take: hangs at the beginning are the commonest ones, and how long
    // a step is, is not known yet.
    static constexpr uint32_t kFirstUnits = 4;
    // A host that runs ahead of its GPU makes the calls of some steps in no time: until so much has passed, or enough
    // units have, all launches have light marks at least.
    static constexpr uint64_t kSettledNs = 50'000'000;

    // `share` in millionths.
    void start(uint32_t share, const MarkCosts& costs);
    void set_costs(const MarkCosts& costs) { costs_ = costs; }

    // A unit has ended.
    void add(const ObservedUnit& unit);

    // How many launches of the unit that begins now may have full marks.
    uint64_t full_launches(uint64_t unit) const;

    const ObservingPlan& plan() const { return plan_; }
    uint64_t unit_ns() const { return units_ == 0 ? 0 : sum_ns_ / remembered(); }
    uint64_t unit_launches() const { return units_ == 0 ? 0 : sum_launches_ / remembered(); }

    // Is this one of the units with full marks? One of each `of`, the same ones on all ranks, and not always the same
    // place among them: what recurs in each n-th step is observed at times, whatever n is.
    static bool is_chosen(uint32_t of, uint64_t unit);

  private:
    bool is_settled() const { return units_ >= kRemembered || sum_ns_ >= kSettledNs; }
    uint64_t remembered() const { return units_ < kRemembered ? units_ : kRemembered; }
    double allowed_ns(uint64_t took_ns) const { return static_cast<double>(took_ns) * share_ / 1e6; }
    uint32_t choose_full() const;
    uint32_t choose_light(uint32_t full_of) const;

    MarkCosts costs_;
    uint32_t share_;
    ObservingPlan plan_;
    ObservedUnit last_[kRemembered];
    uint64_t units_;
    uint64_t sum_ns_;
    uint64_t sum_launches_;
    double debt_ns_;  // GPU time that full marks took beyond what was allowed; never negative: nothing is saved up
};

}  // namespace titan::tracer
