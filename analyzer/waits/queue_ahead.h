// Work ahead of a call on its stream that is not known to be done: the call may wait for it. Waits for events are
// followed to the stream that records them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "run.h"
#include "stream_order.h"

namespace titan::analyzer {

struct Ahead {
    std::vector<uint32_t> work;  // may be what blocks: indices into Process::work, oldest first, at most kMaxAhead
    size_t more_work = 0;        // newer ones that are not listed
    std::vector<uint32_t>
        calls;               // unfinished calls of other streams that it waits for by events: into Process::entries
    bool by_events = false;  // some of it lies on another stream and is waited for by an event
    bool implicit = false;   // on another stream, and ordered only by the rules of the legacy default stream
    bool empty() const { return work.empty() && calls.empty(); }
    size_t size() const { return work.size() + more_work; }
};

inline constexpr size_t kMaxAhead = 64;

// Reads one process many times. Keeps references: process and order must outlive it.
class QueueReader {
  public:
    QueueReader(const Process& process, const StreamOrder& order);
    Ahead ahead_of(uint32_t entry) const;
    // Everything unfinished on a stream, ahead of the newest record of an event, anywhere: for a host that waits.
    Ahead on_stream(uint64_t stream) const;
    Ahead before_record(uint64_t event) const;
    Ahead anywhere() const;

  private:
    struct Search;
    void collect(uint64_t stream, int64_t before_ns, uint32_t self, Search& search) const;
    void follow(uint32_t wait, Search& search) const;
    void collect_implicit(uint64_t stream, int64_t before_ns, uint32_t self, Search& search) const;
    Ahead finished(Search& search) const;

    const Process& process_;
    std::unordered_map<uint64_t, std::vector<uint32_t>> work_of_;   // key: stream
    std::unordered_map<uint64_t, std::vector<uint32_t>> calls_of_;  // key: stream; unfinished calls, in program order
};

bool is_legacy_stream(uint64_t stream);
// Work on the legacy default stream waits for the other streams, and they for it; such waits are not recorded.
bool waits_by_default_stream(const Process& process);
// "kernel spin_forever", "copy of 4,096 bytes (cudaMemcpyAsync)".
std::string work_text(const Process& process, const StreamWork& work);
// The same with the whole name, the stream and the age.
std::string work_details(const Process& process, const StreamWork& work);

}  // namespace titan::analyzer
