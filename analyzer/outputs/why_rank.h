// One rank: what it is doing, what it waits for, and whom that leads to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evidence.h"
#include "host/json_value.h"

namespace titan::analyzer {

struct WhyRank {
    int rank = -1;
    const Process* process = nullptr;  // null: it left no record
    Sentence doing;
    Sentence waits;
    Sentence leads;
    std::optional<uint32_t> node;    // of the wait-for graph: what it has waited in for longest
    std::vector<int> waits_for;      // who is missing there
    std::vector<int> by_way_of;      // ranks that wait in turn, the nearest first
    const Finding* about = nullptr;  // names the rank, or says that it waits
};

// All ranks of the run, also those without a record.
std::vector<int> ranks_of_run(const Run& run);

// `evidence` and `diagnosis` are those of one run, of which `rank` is one.
WhyRank why_rank(const Evidence& evidence, const Diagnosis& diagnosis, int rank);
// Three lines.
std::string why_text(const WhyRank& why);
std::string why_json(const Run& run, const Evidence& evidence, const WhyRank& why);

}  // namespace titan::analyzer
