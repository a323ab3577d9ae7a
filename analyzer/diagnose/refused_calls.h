// Calls that NCCL refused: it has not counted them, and the program may have gone on.
#pragma once

#include <string>
#include <vector>

#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

struct Refusal {
    std::string what;  // "comm_init (invalid usage)"
    std::vector<int> ranks;
};

// Calls that were a process's last: the exception that the program ends with, or handles, is NCCL's.
std::vector<Refusal> refusals_of(const Run& run);
// "NCCL refused comm_init (invalid usage) on ranks 0-3".
Sentence refusal_fact(const Refusal& refusal);

}  // namespace titan::analyzer
