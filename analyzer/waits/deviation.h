// The place where a rank's calls depart from those of ranks with the same role, or from what it always did itself.
// Breaks ties between ranks that wait for each other: the one that departed is the suspect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct Deviation {
    uint32_t process = kNoIndex;
    uint32_t place = kNoIndex;  // index in its history: the call that should have been another one
    std::vector<int> peers;     // ranks of the same role that all made another call there; empty: told by its own past
    OpKind expected{};          // operation that the first peer made there, or its own past
};

// The one of `ranks` (global) that deviates in its calls on these communicators; none where several do or nobody does.
// Siblings of the communicators count as the same.
std::optional<Deviation> only_deviating(const Run& run, const std::vector<int>& ranks,
                                        const std::vector<uint32_t>& communicators);

}  // namespace titan::analyzer
