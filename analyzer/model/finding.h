// What a diagnosis is made of. The kinds come from one table: their names are part of the JSON interface.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "clocks.h"
#include "run.h"

namespace titan::analyzer {

// X(identifier, "name", severity, "what it means", "what to do next")
#define TITAN_FINDING_KINDS(X)                                                                                         \
    X(kRankDead, "rank_dead", finding, "a member's process is gone while others wait for it",                          \
      "look for the reason in that node's kernel log (OOM killer, Xid) and in the rank's own stderr")                  \
    X(kRankStopped, "rank_stopped", finding, "a rank's process lives and does not run: stopped, held or frozen",       \
      "let it go on (kill -CONT PID, scontrol resume, detach the debugger, thaw the cgroup), and find out who "        \
      "stopped "                                                                                                       \
      "it")                                                                                                            \
    X(kRankNotArrived, "rank_not_arrived", finding, "a member never called the collective that others wait in",        \
      "find out why that rank stands where it stands, instead of making the call")                                     \
    X(kOpMismatch, "op_mismatch", finding, "members call different operations at the same sequence number",            \
      "compare the code paths that lead there: a branch that only some ranks take is the usual cause")                 \
    X(kSizeMismatch, "size_mismatch", finding, "members pass different counts at the same sequence number",            \
      "compare shapes on the ranks named: uneven batches, padding or sharding are the usual causes")                   \
    X(kDtypeMismatch, "dtype_mismatch", finding, "members pass different datatypes at the same sequence number",       \
      "compare dtypes on the ranks named: autocast or a parameter in another precision are the usual causes")          \
    X(kRedopMismatch, "redop_mismatch", finding,                                                                       \
      "members reduce with different operations at the same sequence number",                                          \
      "results are wrong even where nothing hangs: compare the reduction on the ranks named")                          \
    X(kRootMismatch, "root_mismatch", finding, "members name different roots at the same sequence number",             \
      "roots are ranks of the communicator, not global ranks: look for a mixed-up rank")                               \
    X(kOrderInversion, "order_inversion", finding,                                                                     \
      "members issued collectives of different communicators in orders that wait for each other",                      \
      "make every rank issue the collectives of these communicators in the same order, or on different streams")       \
    X(kP2pUnmatched, "p2p_unmatched", finding, "a send without its receive, or a receive without its send",            \
      "find out what the named rank does instead of calling the other half")                                           \
    X(kP2pCycle, "p2p_cycle", finding, "point-to-point calls that wait for each other in a ring",                      \
      "put the send and the receive into one ncclGroupStart/ncclGroupEnd (batch_isend_irecv), or let even "            \
      "ranks send first and odd ranks receive first")                                                                  \
    X(kStuckInFlight, "stuck_in_flight", finding, "every member arrived with equal arguments, and it does not finish", \
      "suspect the fabric or a GPU: nvidia-smi, dmesg (Xid), the link counters of the nodes named, NCCL_DEBUG=INFO")   \
    X(kGpuQueueBlocked, "gpu_queue_blocked", finding,                                                                  \
      "a member issued the collective, but its stream never reached it: something ahead of it does not end",           \
      "look at the work that is named: a kernel that loops or waits for data, a copy, an event that is never "         \
      "recorded; cuda-gdb or a GPU core dump of that rank shows where its kernel is, its stacks where a host "         \
      "function "                                                                                                      \
      "is")                                                                                                            \
    X(kCaptureMismatch, "capture_mismatch", finding,                                                                   \
      "a member captured the collective into a CUDA graph that it never launched, the others ran it",                  \
      "launch the graph, or keep the collective out of the capture: all ranks must run it, each by whatever way")      \
    X(kCommInitStuck, "comm_init_stuck", finding, "communicator creation that some members never entered",             \
      "see why the named ranks never called it; if all did, check NCCL_SOCKET_IFNAME, firewalls and the bootstrap "    \
      "address")                                                                                                       \
    X(kStraggler, "straggler", finding,                                                                                \
      "a rank that the others wait for, step after step, and which part of its step is slow",                          \
      "look at the part that is named: py-spy or a profiler for host code, nvidia-smi (clocks, throttling) for the "   \
      "GPU, "                                                                                                          \
      "the storage for loaders")                                                                                       \
    X(kSlowCollective, "slow_collective", finding, "the collective itself is slow on all members",                     \
      "compare the links of the hosts named (ibstat, link counters, NCCL_DEBUG=INFO for another path or protocol), "   \
      "and "                                                                                                           \
      "whether other jobs share them")                                                                                 \
    X(kMissingDump, "missing_dump", warning, "a rank of which nothing could be read",                                  \
      "look on that rank's node: titan-analyze rings, and titan-analyze collect --into DIR")                           \
    X(kLostEntries, "lost_entries", warning, "calls that were recorded and overwritten, or could not be recorded",     \
      "raise the ring sizes named in the warning")

enum class Severity : uint8_t { finding, warning };

enum class FindingKind : uint8_t {
#define TITAN_FINDING_ID(id, ...) id,
    TITAN_FINDING_KINDS(TITAN_FINDING_ID)
#undef TITAN_FINDING_ID
};

struct FindingKindRow {
    FindingKind kind;
    std::string_view name;
    Severity severity;
    std::string_view meaning;
    std::string_view remedy;
};

inline constexpr auto kFindingKinds = std::to_array<FindingKindRow>({
#define TITAN_FINDING_ROW(id, name, severity, meaning, remedy) \
    {FindingKind::id, name, Severity::severity, meaning, remedy},
    TITAN_FINDING_KINDS(TITAN_FINDING_ROW)
#undef TITAN_FINDING_ROW
});

constexpr const FindingKindRow& row_of(FindingKind kind) { return kFindingKinds[static_cast<size_t>(kind)]; }
constexpr std::string_view name_of(FindingKind kind) { return row_of(kind).name; }

static_assert([] {
    for (const auto& row : kFindingKinds) {
        if (row.name.empty() || row.meaning.empty() || row.remedy.empty() || row_of(row.kind).name != row.name) {
            return false;
        }
    }
    return true;
}());

enum class Confidence : uint8_t { kPossible, kLikely, kCertain };

constexpr std::string_view name_of(Confidence confidence) {
    return confidence == Confidence::kCertain ? "certain" : confidence == Confidence::kLikely ? "likely" : "possible";
}

constexpr Confidence lower(Confidence confidence) {
    return confidence == Confidence::kCertain ? Confidence::kLikely : Confidence::kPossible;
}

// One step around a ring of waits.
struct CycleStep {
    int rank = -1;
    std::string waits_in;
    int waits_for = -1;
};

struct StackFrame {
    std::string text;
    std::string library;  // that it came with; empty: the program's own
};

struct Finding {
    FindingKind kind{};
    std::vector<int> ranks;    // culprits, global
    std::vector<int> victims;  // who waits because of them
    uint32_t communicator = kNoIndex;
    uint64_t sequence = kNoSequence;
    std::string op;
    Confidence confidence = Confidence::kCertain;
    std::string summary;
    std::vector<std::string> evidence;
    std::vector<std::string> to_be_sure;  // what would make it certain; empty where it is
    std::vector<CycleStep> cycle;         // the last waits for the first; empty where there is none
    std::map<int, std::string> rank_state;
    std::map<int, std::string> brief_state;         // the same without times, to fold ranks that do the same
    std::map<int, std::vector<StackFrame>> stacks;  // where culprits stood, innermost frames first
    bool hangs = true;                              // false: wrong, but nobody waits because of it
    bool skipped = false;      // the culprit went past the call: it is not where the program wants it
    std::vector<int> waiting;  // in the very call that the culprit has not made
    int64_t since_ns = 0;      // when the first of the victims began to wait

    // A reason for doubt, told by what would settle it. Without one the finding is as sure as before.
    void doubt(bool doubtful, const std::string& what_would_settle_it) {
        if (doubtful) {
            confidence = lower(confidence);
            to_be_sure.push_back(what_would_settle_it);
        }
    }
};

// A wait that is longer than usual and no hang yet.
struct Pending {
    std::vector<int> ranks;    // who waits
    std::vector<int> missing;  // for whom: those whose global ranks are known
    uint32_t communicator = kNoIndex;
    uint64_t sequence = kNoSequence;  // of a call, not of a creation
    std::string op;
    int64_t since_ns = 0;
    int64_t waited_ns = 0;
    int64_t hang_after_ns = 0;
    std::string summary;
};

struct Diagnosis {
    std::vector<Finding> findings;  // the head one first
    std::vector<Pending> waiting;   // the longest first; only where no finding hangs
    Clocks clocks;                  // of the hosts
    std::vector<Warning> warnings;
    std::string
        cannot_tell;  // why there is no verdict, neither a finding nor "nothing wrong"; empty where there is one
};

struct DiagnoseOptions {
    double hang_after_s = 0;  // 0: from the run's own habits
};

}  // namespace titan::analyzer
