// Witnesses beside the recorders: what a launcher, a scheduler or NCCL itself wrote about the processes of a job, in files that are
// given or lie beside the dumps. A witness tells of ranks that left no record, and how those ended that could not say it themselves.
//
// Anybody may have written such a file: a reader trusts no byte, takes a bounded number of statements from it and throws nothing.
// Another witness: one file in load/witness/ and a row in the table of witness.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan::analyzer {

// What a statement says of its process.
enum class Claim : uint8_t {
    kEnded,   // it ended, not by success
    kSilent,  // others cannot reach it any more
    kNote,    // anything else that is worth a line of evidence
    kUnread,  // nothing: why the file is not read
};

// Where its end lies among those of the others, as far as the witness tells.
enum class EndOrder : uint8_t { kUnknown, kFirst, kAfterOthers };

// One statement about one process. What is not told is -1, 0 or empty.
struct Testimony {
    std::string witness;  // "torchrun", "srun"
    std::string file;     // for messages
    std::string text;     // what it says, one printable line without the name of the witness
    Claim claim = Claim::kNote;
    EndOrder order = EndOrder::kUnknown;
    int32_t rank = -1;          // global
    bool rank_by_task = false;  // the rank is taken from the number of the task alone
    int32_t task = -1;          // of the scheduler: a rank, unless a task starts several ranks
    int32_t local_rank = -1;    // on its node
    int32_t pid = 0;
    int32_t attempt = -1;
    int32_t part = 0;  // of the file: one that is appended to holds several jobs
    std::string run;   // as the tracer calls it, where the scheduler tells
    std::string host;
    int64_t time_ns = 0;       // CLOCK_REALTIME
    int64_t wall_s = 0;        // the same by a clock of an unknown zone: for comparing what one witness says
    int64_t written_ns = 0;    // the file's time
    int32_t exit_status = -1;  // where it exited
    int32_t signal = 0;        // where a signal ended it
    bool out_of_memory = false;
    std::string message;           // of the exception that ended it
    std::string error_file;        // that the witness names
    int32_t comm_rank = -1;        // of NCCL's: the rank in the communicator that it speaks of
    int32_t comm_size = -1;        // of that communicator
    bool considered_dead = false;  // by NCCL's RAS, which cannot reach it
    bool lost_a_peer = false;      // its connection to another process was closed by that one
};

// "killed by SIGKILL", "exited with status 3", "killed by SIGKILL: out of memory"; empty where nothing tells.
std::string ending_text(const Testimony& said);

struct WitnessFile {
    std::string path;
    std::string label;        // for messages
    std::string_view text;    // of a large file its beginning and its end
    int64_t modified_ns = 0;  // 0 unknown
};

struct WitnessReader {
    std::string_view name;
    // Whether it may hold statements. Cheap: asked of each log beside the dumps. A file can be of several witnesses.
    bool (*recognises)(const WitnessFile& file);
    void (*read)(const WitnessFile& file, std::vector<Testimony>& into);
    bool whole = false;  // a part of such a file says nothing: long ones are read whole, too
};
std::span<const WitnessReader> witness_readers();

// Files of these names are looked into where they lie beside dumps: logs, error files, what is usually redirected to a file.
bool is_witness_name(std::string_view name);
// One that is given by name may be called anything: its content decides.
bool is_witness_file(const std::string& path);

// Of one file that was read; for all readers. At most kMaxTestimonies.
inline constexpr size_t kMaxTestimonies = 4096;
std::vector<Testimony> testimonies_of(const WitnessFile& file);

// Of all these files, in order; what cannot be read, or was left out because it is too much, becomes a problem.
std::vector<Testimony> read_witnesses(const std::vector<std::string>& paths, std::vector<std::string>& problems);

}  // namespace titan::analyzer
