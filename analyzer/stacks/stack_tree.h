// Stacks of many threads, merged by their common frames, outermost first.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "named_stacks.h"

namespace titan::analyzer {

// A frame, and the ranks whose threads are in it or in its callees. Threads without a stack end in a node that says
// why.
struct StackNode {
    std::string text;
    std::set<int> ranks;
    size_t threads = 0;
    size_t ending = 0;                // threads whose innermost frame this is
    std::vector<StackNode> children;  // those of most threads first
};

void add_stack(StackNode& root, int rank, const std::vector<std::string>& outermost_first);

// The root has no text.
StackNode merge_stacks(const std::vector<ProcessStacks>& all, bool all_threads);

}  // namespace titan::analyzer
