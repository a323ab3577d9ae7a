// Communicators as lists of global ranks, and what each of them is for.
#pragma once

#include <vector>

#include "layout.h"

namespace titan::analyzer {

struct Group {
    std::vector<int> ranks;  // index: communicator rank; -1 unknown; empty if the size is unknown or the identity
                             // guessed
    bool complete = false;   // all known
    int stride = 0;          // distance of neighbours, if it is always the same
};

// Index: that of Run::communicators.
std::vector<Group> groups_of(const Run& run);
std::vector<CommunicatorRole> roles_of(const Run& run, const std::vector<Group>& groups);

}  // namespace titan::analyzer
