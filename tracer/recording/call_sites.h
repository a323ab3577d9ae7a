// Call sites: the frames of the calling thread, as the number of a stack that the ring keeps once.
//
// hot, any-thread: gathering frames and finding their stack is loads and one add, no lock, allocation or system call. A
// stack that is seen for the first time is written into the ring by the thread that made the call, while its own frames
// keep all that they refer to alive: later it could be gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/layout/call_sites_layout.h"
#include "formats/layout/stacks_layout.h"
#include "frames.h"
#include "keyed_rows.h"
#include "string_table.h"
#include "unwind_rules.h"

namespace titan::tracer {

inline constexpr uint32_t kMaxCallFrames = 64;  // innermost frames of each kind

// How a thread finds its own Python frames. Filled in once, then read only.
struct CallPython {
    python::Runtime runtime;
    void* (*this_thread_state)();
    int (*is_initialized)();  // 0 once CPython begins to take its threads apart
};

// Data for a thread to find its native frames.
struct CallNative {
    UnwindRules rules;
    std::atomic<uint16_t> generation;  // generation of the list of modules
    AddressRange own;                  // the tracer's own code
    // Cold: makes a rule for that address, or says that there is none. False: no room for it.
    bool (*learn)(uint64_t address);
};

class CallSites {
  public:
    // Lays the tables out in format::call_sites_bytes() of zeroed memory. `kinds`: format::CallSiteKinds, not 0. cold.
    void start(char* region, uint32_t kinds, uint64_t& lost);
    bool on() const { return header_ != nullptr; }
    bool wants(format::CallSiteKinds kind) const { return on() && (header_->kinds & kind) != 0; }

    // The number for CollectiveEntry::stack; 0 when nothing is known, or there was no room (counted).
    uint32_t capture(AddressRange thread_stack);

    // Turns Python frames on; `python` stays. cold.
    void set_python(const CallPython* python) { python_.store(python, std::memory_order_release); }
    bool has_python() const { return python_.load(std::memory_order_relaxed) != nullptr; }
    // Words for the reader: which Python, or why there is none. cold.
    void say_python(const char* text);

    // Turns native frames on; `native` stays. cold.
    void set_native(const CallNative* native) { native_.store(native, std::memory_order_release); }
    void say_native(const char* text);
    // False: the table of modules is full. cold, one thread at a time.
    bool add_module(format::StackModule module, const char* path);

    // For tests: a stack as capture() would have gathered it.
    struct Gathered {
        uint64_t hash = 0;
        const uint64_t* native = nullptr;
        const python::Frame* python = nullptr;
        uint32_t native_count = 0;
        uint32_t python_count = 0;
        uint8_t flags = 0;
    };
    uint32_t intern(const Gathered& stack);

  private:
    using Stacks = KeyedRows<format::CallStackRecord, &format::CallStackRecord::hash>;
    using Places = KeyedRows<format::CallPlace, &format::CallPlace::key>;

    void write(const Gathered& stack, format::CallStackRecord& record);
    void gather_python(Gathered& stack, python::Frame* frames);
    void gather_native(Gathered& stack, uint64_t* addresses, AddressRange thread_stack);
    // Row of the place + 1 of that key; 0 without room. `fill` writes a new one.
    template <typename Fill>
    uint32_t place_of(uint64_t key, const Fill& fill);
    void describe(const python::Frame& frame, format::CallPlace& place);
    uint32_t lose();

    template <typename T>
    T* table(format::CallSiteTable which) const;
    format::RegionCursor& cursor(format::CallSiteTable which) const;

    format::CallSitesHeader* header_ = nullptr;
    Stacks stacks_;
    Places places_;
    format::CallFrame* frames_ = nullptr;
    uint64_t* lost_ = nullptr;
    std::atomic<const CallPython*> python_{nullptr};
    std::atomic<const CallNative*> native_{nullptr};
    StringTable texts_;
};

}  // namespace titan::tracer
