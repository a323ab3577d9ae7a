// The wait-for graph. A node is one thing that ranks wait in: a collective, a point-to-point call, the creation of a
// communicator. It waits (AND) for every member that has not arrived; an edge leads to the node that holds such a
// member. A node whose absent members are held by nothing is a cause; a cycle is a deadlock; the rest are victims.
//
//    all_reduce #7 on tp                   reduce_scatter #3 on dp               send #2, 5 -> 6, on pp
//    waiting: ranks 0, 1                   waiting: rank 2                       waiting: rank 6
//    absent:  rank 2 ------- Edge -------> absent:  rank 5 ------- Edge -------> absent:  rank 5, held by nothing
//             via rank 2, which waits               via rank 5 (held in a send)  = the cause: rank 5 never called it
//             there instead
//    blocked: rank 3, whose stream stands
//             behind the copy that Ahead names: held by work of its own, no node
//
// Three kinds of arrows lead from a node: edges (an absent or blocked member is held there: proof of waiting),
// may_follow (a waiter issued that call before this one on another stream: no proof) and together (calls of one NCCL
// group or graph launch: none ends before all do).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "expected.h"
#include "match.h"
#include "queue_ahead.h"
#include "run.h"

namespace titan::analyzer {

enum class WaitKind : uint8_t { kCollective, kPointToPoint, kCreation };

enum class AbsenceReason : uint8_t {
    kNotIssued,  // never made the call
    kGrouped,    // made it inside a group that is not ended
    kQueued,     // made it, but its stream is held by an earlier one
    kFailed,     // its call returned an error
    kClosed,     // destroyed or aborted the communicator
    kLeft,       // made it, but its record ends before most of the wait: it may have left since
    kUnknown,    // no record, or one from before the wait began
};

// The conclusion if an absent member made a later call of a waiter without the one that is waited in.
enum class SkipVerdict : uint8_t {
    kNo,
    kSkipped,      // it left the call out
    kWaiterIsOdd,  // the waiter left another one out, or made one too many
    kUndecided,    // as many ranks have one order as the other
};

struct SkippedCall {
    SkipVerdict verdict = SkipVerdict::kNo;
    MemberRef waiter;
    uint32_t communicator = kNoIndex;  // communicator of the later call, if there is one
    uint64_t sequence = kNoSequence;
};

struct Absence {
    MemberRef member;  // row may be kNoIndex: the process is known, it never made this communicator
    int comm_rank = -1;
    int global_rank = -1;
    AbsenceReason reason{};
    std::vector<uint32_t> held_by;  // nodes
    bool moved_on = false;          // went on to a later step without the call
    bool by_prediction = false;     // judged by what it always did before
    bool restarted = false;         // another process of that rank makes the communicator anew
    SkippedCall skip{};
};

struct Waiter {
    MemberRef member;
    const Entry* entry = nullptr;  // null in a creation, and where it is overwritten
    int64_t since_ns = 0;
    int64_t age_ns = 0;  // by the waiter's own clock
    bool in_line =
        false;  // older entries are lost and none of its stream is seen to have ended: it may not be its turn
};

// A member that issued its call, but whose stream has not come to it: the device says so, or the stream waits for an
// event behind an unfinished call.
struct Blocked {
    MemberRef member;
    const Entry* entry = nullptr;
    Ahead ahead;
    std::vector<uint32_t> held_by;  // nodes: the calls ahead
};

struct WaitNode {
    WaitKind kind{};
    uint32_t communicator = kNoIndex;  // creation by split: the parent
    uint64_t sequence = kNoSequence;   // creation by split: its ordinal
    int source = -1;                   // point-to-point, communicator ranks
    int target = -1;
    OpKind op{};
    std::vector<Waiter> waiting;
    std::vector<Absence> absent;
    std::vector<Blocked> blocked;  // they are among the waiting, too
    std::vector<int> finished;     // global ranks that are through
    int64_t last_finished_ns = 0;  // the newest of their ends, 0 unknown
    bool device_unknown = false;   // nobody saw the GPU: that it is unfinished is inferred
    bool lost = false;             // the entry of some member is overwritten
    bool sizes_differ = false;     // point-to-point

    // Point-to-point: what this member calls; a signal is sent with data, or without.
    OpKind half_of(int comm_rank) const {
        const bool one_sided = op == OpKind::kWaitSignal;
        return comm_rank == target ? (one_sided ? OpKind::kWaitSignal : OpKind::kRecv)
                                   : (one_sided ? OpKind::kSignal : OpKind::kSend);
    }
};

struct Edge {
    uint32_t from;
    uint32_t to;
    MemberRef via;  // absent in `from`, held in `to`
};

struct WaitGraph {
    std::vector<WaitNode> nodes;
    std::vector<Edge> edges;
    std::vector<std::vector<uint32_t>> edges_of;  // node -> indices into edges
    // node -> nodes that a waiter issued before it (on other streams) or together with it. Used where the waits between
    // streams are not recorded: no proof of waiting, but what may follow from something else is no cause.
    std::vector<std::vector<uint32_t>> may_follow;
    // node -> nodes whose calls run together with a call of it, as one NCCL group or graph launch: none ends before all
    // do.
    std::vector<std::vector<uint32_t>> together;
    std::vector<StreamOrder> orders;  // index: process
};

// `mismatches`: calls that cannot have ended because members disagree, where nobody watched the GPU.
WaitGraph build_wait_graph(const Run& run, const SiblingEdits& edits, const std::vector<Mismatch>& mismatches = {});

// Nodes that are reached from `start` over edges and may_follow, itself included.
std::vector<bool> may_be_behind(const WaitGraph& graph, uint32_t start);

}  // namespace titan::analyzer
