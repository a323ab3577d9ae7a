// One side of a comparison: how long the parts of its steps took, slice by slice of its steps, rank by rank; and what
// it says of itself. In memory that grows with names and ranks, not with steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parts.h"

namespace titan::analyzer {

inline constexpr size_t kMostNames = 1000;  // programs may make names up as they go

using PartKey = std::pair<PartKind, std::string>;

// A part in the steps of one rank. Slices (effect.h) without a value are NaN.
struct RankSlices {
    std::vector<float> typical;  // median of each slice
    std::vector<float> mean;
    uint64_t times = 0;  // that it came, with a value or without
};

struct SideRow {
    std::map<int, RankSlices> of_rank;
    bool summed = false;  // some calls are on record as sums of their step: their median is not known
};

struct SideRank {
    std::string host;
    std::vector<std::string> places;  // in the job's grid: "stage 1", "tp rank 0"
    uint64_t steps = 0;
};

// A value of each step, by step.
using StepSeries = std::vector<std::pair<int64_t, double>>;

struct SideMetric {
    StepSeries values;
    uint64_t not_finite = 0;  // steps
};

struct Side {
    // Facts about the record.
    std::string run;
    int32_t attempt = 0;
    int32_t world_size = -1;
    std::optional<std::pair<int64_t, int64_t>> steps;  // that were asked for
    std::map<int, SideRank> ranks;
    std::set<std::string> roles;  // where ranks count within them
    std::vector<int> missing_ranks;
    std::map<std::string, std::string> labels;    // of the program: what most ranks say
    std::map<std::string, std::string> settings;  // link/config_differences.h: what most ranks have
    bool has_variables = true;                    // false: journals, of which settings are versions alone
    bool has_flight_recorder_files = false;

    std::map<PartKey, SideRow> rows;
    std::map<std::string, SideMetric> metrics;
    StepSeries lateness;  // how long the job waited for late ranks; empty where the record does not tell
    std::vector<int> late_ranks;
    std::map<PartKey, uint64_t> untimed;  // calls whose time is unknown
    uint64_t overwritten_markers = 0;
    uint64_t names_left_out = 0;
    std::vector<std::string> problems;  // what could not be read
    std::vector<int> short_ranks;       // with too few steps on record
};

// Reads the records of the run once more, a process at a time.
Side side_of(const Run& run, const WantedSteps& wanted, const std::set<int>& ranks, const ReadProgress& progress = {});

}  // namespace titan::analyzer
