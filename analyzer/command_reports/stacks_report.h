// Writers of stacks, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "host/json_value.h"
#include "named_stacks.h"
#include "report.h"

namespace titan::analyzer {

// Form of the output: one tree of the stacks of all processes, or thread by thread.
struct StacksView {
    bool list = false;
    bool all_threads = false;
};
std::string stacks_report(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems,
                          const StacksView& view, const TextStyle& style);
std::string stacks_json_report(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems);

}  // namespace titan::analyzer
