// Invented jobs of any shape, healthy or with one fault, from a seed: what a statistical test of the analyzer plays.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "scenario.h"

namespace titan::synth {

// X(identifier, "name", kinds of finding that are right for it)
#define TITAN_RANDOM_FAULTS(X)                                                     \
    X(kSleep, "sleep", "rank_not_arrived p2p_unmatched")                           \
    X(kDie, "die", "rank_dead")                                                    \
    X(kCrash, "crash", "rank_dead")                                                \
    X(kExit, "exit", "rank_not_arrived p2p_unmatched")                             \
    X(kOtherOp, "other_op", "op_mismatch")                                         \
    X(kSize, "size", "size_mismatch")                                              \
    X(kDtype, "dtype", "dtype_mismatch")                                           \
    X(kRedop, "redop", "redop_mismatch")                                           \
    X(kRoot, "root", "root_mismatch")                                              \
    X(kSkip, "skip", "op_mismatch size_mismatch root_mismatch rank_not_arrived")   \
    X(kExtra, "extra", "op_mismatch size_mismatch root_mismatch rank_not_arrived") \
    X(kInversion, "inversion", "order_inversion")                                  \
    X(kP2pUnmatched, "p2p_unmatched", "p2p_unmatched")                             \
    X(kP2pCycle, "p2p_cycle", "p2p_cycle")                                         \
    X(kStuck, "stuck", "stuck_in_flight")                                          \
    X(kGpuBlocked, "gpu_blocked", "gpu_queue_blocked")                             \
    X(kCapture, "capture", "capture_mismatch")                                     \
    X(kInit, "init", "comm_init_stuck")                                            \
    X(kMissing, "missing", "rank_not_arrived p2p_unmatched")

enum class RandomFault : uint8_t {
#define TITAN_RANDOM_FAULT_ID(id, ...) id,
    TITAN_RANDOM_FAULTS(TITAN_RANDOM_FAULT_ID)
#undef TITAN_RANDOM_FAULT_ID
        kNone
};

struct RandomRun {
    std::unique_ptr<Scenario> job;
    RandomFault fault = RandomFault::kNone;
    std::string fault_name = "none";
    std::set<std::string> kinds;  // right ones
    std::vector<int> ranks;       // right ones
    std::vector<int> members;     // of the communicator of the faulty call; empty where none is told
    std::set<int> without;        // ranks that leave no dump
    std::string reason = "timeout";
    std::string story;  // for the message of a failed test
};

RandomRun random_faulty_run(uint64_t seed);
// Snapshotted at a random moment, each rank a little earlier or later.
RandomRun random_healthy_run(uint64_t seed);

}  // namespace titan::synth
