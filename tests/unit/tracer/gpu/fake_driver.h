// A driver whose device does one piece of work at a time, when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace titan::test {

struct FakeContext {
    int device = 0;
    int lives = 0;  // how often it has ended
};

struct FakeEvent {
    bool recorded = false;
    bool reached = false;
    double at_ms = 0;  // on the device's clock
    FakeContext* context = nullptr;
    int life = 0;  // of the context that it was made in
};

// What the tracer put on a stream, in order.
struct FakeWork {
    uint64_t* word = nullptr;  // a write ...
    uint64_t value = 0;
    FakeEvent* event = nullptr;  // ... or an event
};

struct FakeStream {
    FakeContext* context;
    void* graph = nullptr;  // being captured into, null: not being captured
    uint64_t capture = 0;   // number of that capture
    std::vector<FakeWork> work = {};
    size_t done = 0;

    // The device gets through `count` more pieces of work, each one millisecond later than the one before.
    void run(size_t count);

    void begin_capture(void* into);
    void end_capture();
};

// Host memory that a context has given the device an address of.
struct FakeRegistration {
    uint64_t begin;
    uint64_t end;
    const FakeContext* context;
};

struct FakeDriver {
    FakeContext first{.device = 0}, second{.device = 1}, third{.device = 2};
    std::atomic<int> pushes = 0;
    int events_made = 0;
    bool refuse_addresses = false;  // cuMemHostGetDevicePointer fails
    int refuse_writes_with = 0;     // CUresult of cuStreamWriteValue64
    double device_ms = 1000;
    bool primary_active = true;  // of every device
    std::vector<FakeRegistration> registered = {};
    int registrations = 0;
    std::atomic<int> uses_after_end = 0;  // of events and addresses whose context has ended

    // What the driver does at its end: its events and registrations are gone.
    void end(FakeContext& context);
    bool is_registered(uint64_t address) const;
};
extern FakeDriver fake;

// The calling thread's.
FakeContext*& current_context();

}  // namespace titan::test
