// A PyTorch Flight Recorder dump of one process, as plain values; from the tree of either encoding. Reads all versions
// 2.x (PyTorch 2.4 and later): fields that a version lacks are unknown, fields that it adds are left out, and a field
// of a wrong type is an error that names the place, such as entries[3].input_sizes[0].
//
// Facts: torch/csrc/distributed/c10d/FlightRecorder.hpp, FlightRecorderDetail.hpp and
// torch/distributed/flight_recorder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/fr/tree.h"
#include "host/result.h"

namespace titan::format::fr {

enum class State : uint8_t { kUnknown, kScheduled, kStarted, kCompleted };

inline constexpr int64_t kUnknownNumber = INT64_MIN;
// What later versions 2.x add is left out.
inline constexpr int kNewestMinor = 11;

// Texts are numbers of Dump::texts; 0 is the empty text.
struct Tensor {
    uint32_t dtype = 0;
    uint32_t dims_begin = 0;  // index into Dump::dims
    uint32_t dims_count = 0;
    uint64_t elements = 0;  // product of the dims, at most INT64_MAX
};

struct Range {
    uint32_t begin = 0;
    uint32_t count = 0;
};

struct Entry {
    int64_t record_id = kUnknownNumber;
    int64_t pg_id = kUnknownNumber;
    int64_t collective_seq_id = kUnknownNumber;
    int64_t p2p_seq_id = kUnknownNumber;
    int64_t op_id = kUnknownNumber;
    int64_t time_created_ns = 0;  // 0: unknown, or not yet
    int64_t time_started_ns = 0;  // when it was discovered
    int64_t time_completed_ns = 0;
    int64_t timeout_ms = 0;
    double duration_ms = 0;
    uint32_t group = 0;  // text: name of the process group
    uint32_t group_desc = 0;
    uint32_t name = 0;    // text: "nccl:all_reduce", "nccl:send 1->2"
    uint32_t thread = 0;  // text
    Range inputs;         // range of Dump::tensors
    Range outputs;
    Range input_splits;  // range of Dump::splits: elements for each rank of the group, of an all_to_all from 2.11 on
    Range output_splits;
    Range stack;  // range of Dump::stacks, innermost first
    State state = State::kUnknown;
    bool retired = false;  // the watchdog looks at it no more
    bool is_p2p = false;
};

struct Frame {
    uint32_t name = 0;
    uint32_t file = 0;
    int64_t line = 0;
};

// A process group that this process belongs to.
struct Group {
    uint32_t name = 0;
    uint32_t desc = 0;
    std::vector<int32_t> ranks;  // global, by rank in the group; empty where the recorder did not know
};

struct GroupStatus {
    uint32_t pg_id = 0;  // text
    int64_t last_enqueued = -1;
    int64_t last_started = -1;
    int64_t last_completed = -1;
};

struct Dump {
    std::string version;
    int minor = 0;
    std::string host_name;
    std::string library_version;
    int64_t rank = -1;  // only where the file says it
    std::vector<Group> groups;
    std::vector<GroupStatus> status;
    std::vector<Entry> entries;  // oldest first
    std::vector<Tensor> tensors;
    std::vector<int64_t> dims;
    std::vector<uint64_t> splits;
    std::vector<Frame> frames;
    std::vector<uint32_t> stacks;  // frames
    std::vector<std::string> texts;

    const std::string& text(uint32_t id) const { return id < texts.size() ? texts[id] : texts.front(); }
};

// `file_bytes`: size of what the tree was read from; the work that sharing can ask for is bounded by it.
Result<Dump> to_dump(const Tree& tree, size_t file_bytes);

}  // namespace titan::format::fr
