// Reasons for a thread to wait inside a function of NCCL or CUDA. Records hold the names of functions; one table in
// host_calls.cpp says what a name means.
#pragma once

#include <cstdint>
#include <string_view>

namespace titan::analyzer {

class HostCall {
  public:
    enum Trait : uint16_t {
        kNccl = 1 << 0,
        kCuda = 1 << 1,
        kCreation = 1 << 2,       // creation of a communicator
        kSynchronising = 1 << 3,  // waits for work of the GPU, or does so on the way
        kAsynchronous = 1 << 4,
        kLaunch = 1 << 5,  // blocks while the queue of its stream is full
        kOfStream = 1 << 6,
        kOfEvent = 1 << 7,
        kOfDevice = 1 << 8,  // or of a context
        kPolling = 1 << 9,   // returns at once: who waits calls it again and again
    };

    explicit HostCall(std::string_view name);

    bool is_nccl() const { return has(kNccl) && !has(kCuda); }
    bool is_cuda() const { return has(kCuda); }
    bool creates_communicators() const { return has(kCreation); }
    bool waits_for_gpu() const { return (has(kSynchronising) && !has(kAsynchronous)) || polls(); }
    bool polls() const { return has(kPolling); }
    // "inside": how a thread is in such a call.
    const char* preposition() const { return polls() ? "polling" : "inside"; }
    bool launches() const { return has(kLaunch); }
    bool of_stream() const { return has(kOfStream); }
    bool of_event() const { return has(kOfEvent); }
    bool of_device() const { return has(kOfDevice); }

  private:
    bool has(Trait trait) const { return (traits_ & trait) != 0; }

    uint16_t traits_ = 0;
};

}  // namespace titan::analyzer
