// The execution engine of one stream: a FIFO of work and the thread that runs it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace simgpu {

using Work = std::function<void()>;

class StreamQueue : public std::enable_shared_from_this<StreamQueue> {
  public:
    // The worker is detached and keeps the queue alive: a process must be able to exit while a kernel hangs, so
    // nobody ever joins it.
    static std::shared_ptr<StreamQueue> start();

    // Returns the ticket of the work: it is finished once finished() >= ticket.
    uint64_t enqueue(Work work);
    uint64_t last_ticket();
    bool reached(uint64_t ticket);
    void wait(uint64_t ticket);
    // The worker ends after the work enqueued so far.
    void close();

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable has_work_;
    std::condition_variable progressed_;
    std::deque<Work> pending_;
    uint64_t submitted_ = 0;
    uint64_t finished_ = 0;
    static constexpr uint64_t kNobodyWaits = ~uint64_t{0};
    uint64_t next_awaited_ = kNobodyWaits;  // the least ticket that a thread waits for
    bool closed_ = false;
};

}  // namespace simgpu
