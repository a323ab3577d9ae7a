// The memory that the members of one communicator share, and how they wait in it.
//
// Layout: Header, one Member per rank, two staging slots per rank (collectives, double buffered), one mailbox per
// ordered pair for send/recv and one for one-sided messages. The file is sparse: only what is used takes memory. It is
// unlinked by the last member to arrive, so that a running job leaves nothing behind however it dies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace simgpu {

constexpr size_t kSlotBytes = 32 << 10;
constexpr size_t kMailboxBytes = 16 << 10;

// A word that waiters sleep on; whoever changes what they wait for rings it.
struct Bell {
    std::atomic<uint32_t> value;
    void ring();
};

struct Barrier {
    std::atomic<uint32_t> arrived;
    Bell generation;
};

// Fault injection: an operation that starts on all members and finishes on none.
enum class Stuck : int32_t { kNo, kWhole, kOneChannel };

struct OpDescription {
    int32_t kind;
    int32_t datatype;
    int32_t redop;
    int32_t root;
    uint64_t bytes;
    int32_t stuck;  // Stuck
};

struct Member {
    std::atomic<int32_t> present;
    int32_t device;
    uint64_t host;
    int32_t color, key;            // split
    OpDescription description[2];  // double buffered like the slots
    Bell bell;                     // rung when something in this member's mailboxes changed
};

struct Mailbox {
    std::atomic<uint32_t> full;
    uint64_t total_bytes, offset, chunk_bytes;
    uint64_t window, window_offset;  // one-sided messages
    int32_t last;
    unsigned char data[kMailboxBytes];
};

struct Header {
    std::atomic<uint32_t> ready;
    int32_t member_count;
    Bell arrived;
    Barrier device, host;  // operations on streams; communicator management
};

using Stop = std::function<bool()>;

// Waits until `done`, sleeping on the bell. False when `stop` became true first.
bool wait_on(Bell& bell, const std::function<bool()>& done, const Stop& stop);

enum class JoinResult { kJoined, kStopped, kWrongSize, kRankTaken, kSystemError };

class Segment {
  public:
    // Blocks until all members have joined.
    static JoinResult join(const std::string& name, int members, int rank, int device, uint64_t host, const Stop& stop,
                           std::shared_ptr<Segment>* out);
    ~Segment();

    Header& header() { return *static_cast<Header*>(base_); }
    Member& member(int rank);
    unsigned char* slot(int rank, int phase);
    Mailbox& mailbox(int from, int to);
    Mailbox& rma_mailbox(int from, int to);

    // False when stopped. Each member passes each barrier once per round.
    bool pass(Barrier& barrier, const Stop& stop);

  private:
    Segment(void* base, size_t bytes, int members) : base_(base), bytes_(bytes), members_(members) {}
    static size_t size_for(int members);

    void* base_;
    size_t bytes_;
    int members_;
};

// "/simgpu-<uid>-<pid>-": names of segments of the job that process `pid` stands for.
std::string segment_prefix(int pid);
// Removes segments whose process is gone: what a job killed during its start-up left.
void sweep_stale_segments();

}  // namespace simgpu
