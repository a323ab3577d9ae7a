// The processes that this one started: data loaders, savers of checkpoints. Watched by looking at /proc, so that the
// program notices nothing; one that ends and is waited for between two looks ends without a known status.
//
// Owned by the watch thread. No allocation; signal-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace titan::tracer {

struct Child {
    pid_t pid;
    uint64_t start_ticks;
    char name[20];
    uint64_t ended_realtime_ns;  // 0: it lives
    int32_t wait_status;         // of one that has ended, as wait() gives it; kUnknownStatus
};
inline constexpr int32_t kUnknownStatus = -1;

class Children {
  public:
    static constexpr size_t kMost = 128;      // that live; more are counted only
    static constexpr size_t kMostEnded = 16;  // the newest ones

    // Which threads of ours are asked for their children: the main one does in the usual case.
    enum class Ask { kMainThread, kAllThreads };
    void look(Ask ask, uint64_t now_realtime_ns);

    std::span<const Child> living() const { return {living_, living_count_}; }
    // The oldest first.
    std::span<const Child> ended() const { return {ended_, ended_count_}; }

  private:
    void note_ended(uint64_t now_realtime_ns);
    void add_of(pid_t tid);
    void add(pid_t pid);
    void end(const Child& child, uint64_t now_realtime_ns, int32_t wait_status);

    Child living_[kMost] = {};
    size_t living_count_ = 0;
    Child ended_[kMostEnded] = {};
    size_t ended_count_ = 0;
};

}  // namespace titan::tracer
