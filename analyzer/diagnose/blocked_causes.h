// Members whose stream never came to their call, grouped by the work that blocks it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

struct BlockedCause {
    const Blocked* blocked;
    std::vector<uint32_t> nodes;
};
using BlockedCauses = std::map<CulpritKey, BlockedCause>;

// Is there a member whose stream does not wait for another call?
bool is_blocked_there(const Evidence& evidence, const Explained& explained, uint32_t index);
void note_blocked(const Evidence& evidence, uint32_t index, BlockedCauses& causes);
// Members that are blocked in the same call by the same thing are one finding.
void report_blocked(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings,
                    const BlockedCauses& causes);

}  // namespace titan::analyzer
