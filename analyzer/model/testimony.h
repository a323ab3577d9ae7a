// A statement of a witness other than the recorders (witness.h) about one process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace titan::analyzer {

// The content of a statement.
enum class Claim : uint8_t {
    kEnded,   // it ended, not by success
    kSilent,  // others cannot reach it any more
    kNote,    // anything else that is worth a line of evidence
    kUnread,  // nothing: why the file is not read
};

// The place of its end among those of the others, as far as the witness tells.
enum class EndOrder : uint8_t { kUnknown, kFirst, kAfterOthers };

// What PyTorch's watchdog of a rank says about its calls on one group.
struct WatchdogReport {
    std::string group;       // "0(default_pg)", "15(tp)"; empty where it is not told
    bool timed_out = false;  // a call there, or one that is not named
    std::string op;          // "ALLREDUCE"
    int64_t number = -1;     // of that call on the group
    int64_t ran_ms = 0;
    bool counted = false;   // the log tells the next two, which are -1 before the first call
    int64_t enqueued = -1;  // newest call that the rank has made there
    int64_t completed = -1;
    int64_t stuck_s = 0;  // so long the watchdog itself came to no end of a look
};

// One statement about one process. Unknown fields are -1, 0 or empty.
struct Testimony {
    std::string witness;  // "torchrun", "srun"
    std::string file;     // name for messages
    std::string text;     // the statement, one printable line without the name of the witness
    Claim claim = Claim::kNote;
    EndOrder order = EndOrder::kUnknown;
    int32_t rank = -1;          // global
    bool rank_by_task = false;  // the rank is taken from the number of the task alone
    int32_t task = -1;          // the scheduler's task: a rank, unless a task starts several ranks
    int32_t local_rank = -1;    // rank on its node
    int32_t pid = 0;
    int32_t attempt = -1;
    int32_t part = 0;  // part of the file: one that is appended to holds several jobs
    std::string run;   // the tracer's name of the run, if the scheduler tells
    std::string host;
    int64_t time_ns = 0;       // CLOCK_REALTIME
    int64_t wall_s = 0;        // the same by a clock of an unknown zone: for comparing what one witness says
    int64_t written_ns = 0;    // the file's time
    int32_t exit_status = -1;  // if it exited
    int32_t signal = 0;        // if a signal ended it
    bool out_of_memory = false;
    std::string message;           // message of the exception that ended it
    std::string error_file;        // named by the witness
    int32_t comm_rank = -1;        // NCCL only: the rank in the communicator that it speaks of
    int32_t comm_size = -1;        // size of that communicator
    bool considered_dead = false;  // NCCL's RAS cannot reach it
    bool lost_a_peer = false;      // its connection to another process was closed by that one
    std::optional<WatchdogReport> watchdog;
};

}  // namespace titan::analyzer
