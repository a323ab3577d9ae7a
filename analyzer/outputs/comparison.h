// Two sides (side.h), part by part: what differs, by how much, and how sure that is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "effect.h"
#include "side.h"

namespace titan::analyzer {

// kTypicalStep, kMeanStep: the job's steps; the mean has the rare long ones in it. kLateness: what the job waits for
// late ranks in a step.
enum class Compared : uint8_t { kTypicalStep, kMeanStep, kLateness, kPart, kMetric };

struct ComparedRow {
    Compared compared{};
    PartKind kind{};    // of parts
    std::string name;   // as in PartKey
    std::string where;  // "stage 1", "host node-3"; empty: all ranks
    double before = 0;  // nanoseconds; of metrics as the program gave them
    double after = 0;
    double per_step_before = 0;  // how often in a step of a rank, also where it is not known for how long; parts alone
    double per_step_after = 0;
    double of_step = 1;  // what the change adds to a typical step of A, as a share of it; 1 where that is unknown
    Scale scale = Scale::kRatio;
    bool paired = false;  // metrics: step by step, as both sides have them
    std::optional<Effect> effect;
    double chance_of_many = 1;  // of all rows that were looked at (holm_corrected)

    // More than noise, among all rows, and not too small to matter.
    bool differs() const;
    bool is_more() const { return after > before; }
};

struct Comparison {
    std::vector<ComparedRow> steps;   // the typical one and the mean; empty: they could not be compared
    std::vector<ComparedRow> rows;    // of all ranks; what differs first, then by what it adds to a step
    std::vector<ComparedRow> groups;  // hosts and places that differ where not all do alike, likewise
    std::vector<std::string> only_before, only_after;
    std::vector<int> ranks;  // that are compared; empty: all of either side
    std::vector<int> newly_late, no_longer_late;
    std::vector<std::string> notes;  // what could not be compared, and what makes the sides unlike
    bool same_work = true;           // false: perf_tag says that they are different kinds of runs

    bool differs() const;  // anything
};

Comparison compare(const Side& before, const Side& after);

enum class Gate : uint8_t { kPassed, kSlower, kCannotTell };
// Slower by this share of a step at least, and by more than noise: of two equal runs at most 2.5 % are called so.
Gate gate_of(const Comparison& comparison, double slower);

}  // namespace titan::analyzer
