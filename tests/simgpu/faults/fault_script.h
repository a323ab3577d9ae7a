// The fault script: what shall go wrong, where and when. One parser for every program of the simulated node.
//
// Text from SIMGPU_FAULTS, or from the file that SIMGPU_FAULT_FILE names. One fault per line (or between semicolons),
// '#' starts a comment:
//
//     ACTION [rank=LIST] [comm=NAME] [step=RANGE] [nth=N | seq=N] [parameters]
//
// README.md describes actions and parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simgpu {

// action, word, where it applies, the parameters it takes
#define SIMGPU_FAULT_ACTIONS(X)                  \
    X(kSkip, "skip", kOp, "")                    \
    X(kExtra, "extra", kOp, "kind")              \
    X(kOther, "other", kOp, "kind")              \
    X(kCount, "count", kOp, "factor")            \
    X(kDtype, "dtype", kOp, "type")              \
    X(kRedop, "redop", kOp, "op")                \
    X(kRoot, "root", kOp, "root")                \
    X(kSwap, "swap", kOp, "with")                \
    X(kHangKernel, "hang-kernel", kOp, "")       \
    X(kHangCopy, "hang-copy", kOp, "")           \
    X(kHangEvent, "hang-event", kOp, "")         \
    X(kHangHost, "hang-host", kOp, "")           \
    X(kGraphEager, "graph-eager", kOp, "")       \
    X(kStuck, "stuck", kOp, "")                  \
    X(kStuckChannel, "stuck-channel", kOp, "")   \
    X(kAsyncError, "async-error", kOp, "result") \
    X(kSleep, "sleep", kAnywhere, "ms")          \
    X(kSpin, "spin", kAnywhere, "")              \
    X(kKill, "kill", kAnywhere, "")              \
    X(kStop, "stop", kAnywhere, "")              \
    X(kSegv, "segv", kAnywhere, "")              \
    X(kExit, "exit", kAnywhere, "code")          \
    X(kDump, "dump", kAnywhere, "")              \
    X(kGraphSkip, "graph-skip", kReplay, "")     \
    X(kNoInit, "no-init", kCreation, "")

enum class FaultAction {
#define ROW(name, word, where, parameters) name,
    SIMGPU_FAULT_ACTIONS(ROW)
#undef ROW
};

enum class FaultPlace { kOp, kAnywhere, kReplay, kCreation };

struct FaultRange {
    int64_t first = 0;
    int64_t last = INT64_MAX;
    bool contains(int64_t value) const { return value >= first && value <= last; }
};

struct Fault {
    FaultAction action = FaultAction::kSkip;
    std::vector<FaultRange> ranks;  // none: all
    std::string comm;               // empty: at the start of the step, before any operation
    std::optional<FaultRange> step;
    std::optional<int64_t> nth;  // operation of the communicator within the step
    std::optional<int64_t> seq;  // operation of the communicator since its creation
    std::string text;            // the line, for messages

    // Parameters, with their defaults.
    std::string kind;   // extra, other: allreduce, broadcast, reduce, allgather, reducescatter
    double factor = 2;  // count
    std::string type;   // dtype: float16, bfloat16, float64, int32, ...
    std::string op;     // redop: sum, prod, max, min, avg
    int root = 1;       // root
    std::string with;   // swap: the communicator whose next operation goes first
    int64_t ms = 1000;  // sleep
    int code = 7;       // exit
    int result = 6;     // async-error: ncclRemoteError

    bool hits_rank(int rank) const;
};

// What the program is about to do.
struct FaultPoint {
    FaultPlace place;
    int rank;
    std::string comm;
    int64_t step;
    int64_t nth;
    int64_t seq;
};

class FaultScript {
  public:
    // An empty error: fine. Otherwise "line N: what is wrong".
    static FaultScript parse(const std::string& text, std::string* error);
    // From the environment; a bad script is reported on stderr and ends the process with status 2.
    static FaultScript from_environment();

    std::vector<const Fault*> at(const FaultPoint& point) const;
    const std::vector<Fault>& faults() const { return faults_; }

  private:
    std::vector<Fault> faults_;
};

const char* fault_word(FaultAction action);
FaultPlace fault_place(FaultAction action);

}  // namespace simgpu
