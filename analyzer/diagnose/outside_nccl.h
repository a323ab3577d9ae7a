// Ranks that wait for others outside NCCL, as their stacks show, and those that stand elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evidence.h"
#include "sentence.h"

namespace titan::analyzer {

struct OutsideWait {
    std::vector<int> waiting;
    std::vector<int> elsewhere;  // where all wait, those of them who do in another call than most
    int64_t since_ns = 0;        // their last call of CUDA or NCCL; the newest of all waiters
    int64_t waited_ns = 0;       // at least so long: the shortest of all waiters, by their own clocks
    int64_t hang_after_ns = 0;
    int64_t usual_ns = 0;  // of an idle job: the longest time between two calls of a rank, 0 unknown
    bool is_over = false;  // those who wait have been told to end, or have ended: nobody will come any more
    Sentence story;        // who waits where, and who is where
};

// None where nobody waits so, or where all do in one place.
std::optional<OutsideWait> find_outside_wait(const Evidence& evidence);

// All ranks live, and none has called CUDA or NCCL for seconds: each is in the program, as in a file, a lock, or a long
// load. None where a rank is not known.
std::optional<OutsideWait> find_idle_job(const Evidence& evidence);

}  // namespace titan::analyzer
