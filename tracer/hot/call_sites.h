// From where a call was made: the frames of the calling thread, as the number of a stack that the ring keeps once.
//
// hot, any-thread: gathering frames and finding their stack is loads and one add, no lock, allocation or system call. A stack
// that is seen for the first time is written into the ring by the thread that made the call, while its own frames keep all
// that they refer to alive: later it could be gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/call_sites_layout.h"
#include "python/frames.h"
#include "strings.h"

namespace titan::tracer {

inline constexpr uint32_t kMaxCallFrames = 64;  // of each kind, innermost

// How a thread finds its own Python frames. Filled in once, then read only.
struct CallPython {
    python::Runtime runtime;
    void* (*this_thread_state)();
    int (*is_initialized)();  // 0 as soon as CPython begins to take its threads apart
};

class CallSites {
  public:
    static uint64_t region_bytes();

    // Lays the tables out in zeroed memory of that many bytes. `kinds`: format::CallSiteKinds, not 0. cold.
    void start(char* region, uint32_t kinds, uint64_t& lost);
    bool on() const { return header_ != nullptr; }
    bool wants(format::CallSiteKinds kind) const { return on() && (header_->kinds & kind) != 0; }

    // The number for CollectiveEntry::stack; 0 when nothing is known, or there was no room (counted).
    uint32_t capture();

    // From now on Python frames are among them; `python` stays. cold.
    void set_python(const CallPython* python) { python_.store(python, std::memory_order_release); }
    bool has_python() const { return python_.load(std::memory_order_relaxed) != nullptr; }
    // Words for the reader: which Python, or why there is none. cold.
    void say_python(const char* text);

    // For tests: a stack as capture() would have gathered it.
    struct Gathered {
        uint64_t hash;
        const python::Frame* python;
        uint32_t python_count;
        uint8_t flags;
    };
    uint32_t intern(const Gathered& stack);

  private:
    uint32_t add(const Gathered& stack);
    void write(const Gathered& stack, format::CallStackRecord& record);
    uint32_t place_of(const python::Frame& frame);
    void describe(const python::Frame& frame, format::CallPlace& place);
    uint32_t lose();

    template <typename T>
    T* table(format::CallSiteTable which) const;
    format::RegionCursor& cursor(format::CallSiteTable which) const;

    format::CallSitesHeader* header_ = nullptr;
    format::CallStackRecord* stacks_ = nullptr;
    format::CallPlace* places_ = nullptr;
    format::CallFrame* frames_ = nullptr;
    uint64_t* lost_ = nullptr;
    std::atomic<const CallPython*> python_{nullptr};
    StringTable texts_;
};

}  // namespace titan::tracer
