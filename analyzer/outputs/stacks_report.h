// Writers of stacks, for people and for machines.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/json_value.h"
#include "named_stacks.h"
#include "report.h"
#include "run.h"

namespace titan::analyzer {

// Form of the output: one tree of the stacks of all processes, or thread by thread.
struct StacksView {
    bool list = false;
    bool all_threads = false;
};
std::string stacks_report(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems,
                          const StacksView& view, const TextStyle& style);
std::string stacks_json_report(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems);

// --- Stacks in the folded format that flame graphs are made of (flamegraph.pl, inferno, speedscope): a line for each
// stack, outermost frame first, and how often it was seen.

struct FoldedStacks {
    std::string text{};
    size_t samples = 0;
    size_t stacks = 0;
    size_t ranks = 0;
    size_t peers = 0;  // of a difference: ranks of the first count
};

// The sampled stacks of these ranks, of all where there are none.
FoldedStacks fold_samples(const Run& run, const std::set<int>& ranks);

// Each stack of dumps, once: of the main threads, or of all.
FoldedStacks fold_dumped(const std::vector<ProcessStacks>& all, bool all_threads);

// Two counts in each line, as difffolded.pl writes them: of the ranks that do the same work as that rank, and of it.
// Both add up to the same: the smaller side is scaled up.
FoldedStacks fold_difference(const Run& run, int rank);

}  // namespace titan::analyzer
