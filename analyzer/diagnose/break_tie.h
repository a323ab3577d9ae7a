// Ranks that wait for each other: which of them does what it never did, or what its like do not do?
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// What the rank did there, beside its siblings, or beside what it did before.
Sentence edit_fact(const Run& run, const Edit& edit);

// Where ranks wait for each other, or nothing tells for what, suspects the only one of these ranks, or of the job,
// whose calls differ from those of its role, else the one of these whose calls differ from its own past.
bool break_tie(const Evidence& evidence, const std::vector<uint32_t>& nodes, Finding& finding);

// The edit of a process in the call that it waits in there, by what it always did before.
std::optional<Edit> edit_in(const Evidence& evidence, uint32_t node, uint32_t process);

}  // namespace titan::analyzer
