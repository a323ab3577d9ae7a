#include "thread_states.h"

namespace titan::tracer::python {
namespace {

constexpr uint32_t kMaxInterpreters = 1024;
constexpr uint32_t kMaxThreads = 1u << 16;
constexpr int kTries = 4;
constexpr uint64_t kGlibcTidBytes = 0x2d0;

// Brent's: a list that comes back to where it was is found in time linear in its length, without memory.
class CycleGuard {
  public:
    bool seen(uint64_t address) {
        if (address == mark_) {
            return true;
        }
        if (++steps_ == limit_) {
            mark_ = address;
            limit_ *= 2;
            steps_ = 0;
        }
        return false;
    }

  private:
    uint64_t mark_ = 0;
    uint32_t steps_ = 0, limit_ = 2;
};

uint64_t native_id_by_glibc(const Memory& memory, uint64_t pthread) {
    int32_t id = 0;
    return memory.get(pthread + kGlibcTidBytes, id) && id > 0 ? static_cast<uint64_t>(id) : 0;
}

// One interpreter's threads, appended. False: its list did not hold together this time.
bool append_threads(const Memory& memory, const Layout& layout, uint64_t interpreter, ThreadState* out,
                    uint32_t capacity, ThreadList& list) {
    uint64_t thread;
    int64_t id;
    if (!memory.get(interpreter + layout.interpreter_threads, thread) ||
        !memory.get(interpreter + layout.interpreter_id, id)) {
        return false;
    }
    CycleGuard cycle;
    char room[kMaxViewBytes];
    for (uint32_t i = 0; thread != 0; ++i) {
        const char* const state = thread % 8 == 0 ? memory.view(thread, room, layout.thread_bytes) : nullptr;
        if (state == nullptr || i == kMaxThreads || cycle.seen(thread) ||
            field<uint64_t>(state, layout.thread_interpreter) != interpreter) {
            return false;
        }
        if (list.count == capacity) {
            list.more = true;
            return true;
        }
        const auto pthread = field<uint64_t>(state, layout.thread_id);
        out[list.count++] = {thread, interpreter, id, pthread,
                             layout.has_native_id ? field<uint64_t>(state, layout.thread_native_id)
                                                  : native_id_by_glibc(memory, pthread)};
        thread = field<uint64_t>(state, layout.thread_next);
    }
    return true;
}

bool list_once(const Memory& memory, const Runtime& runtime, ThreadState* out, uint32_t capacity, ThreadList& list) {
    const Layout& layout = runtime.layout;
    uint64_t interpreter;
    if (!memory.get(runtime.address + layout.runtime_interpreters, interpreter)) {
        return false;
    }
    CycleGuard cycle;
    bool whole = true;
    for (uint32_t i = 0; interpreter != 0; ++i) {
        if (i == kMaxInterpreters || interpreter % 8 != 0 || cycle.seen(interpreter)) {
            return false;
        }
        const uint32_t before = list.count;
        bool read = false;
        for (int attempt = 0; attempt < kTries && !read; ++attempt) {
            list.count = before;
            read = append_threads(memory, layout, interpreter, out, capacity, list);
        }
        whole = whole && read;
        if (!memory.get(interpreter + layout.interpreter_next, interpreter)) {
            return false;
        }
    }
    return whole;
}

}  // namespace

ThreadList list_threads(const Memory& memory, const Runtime& runtime, ThreadState* out, uint32_t capacity) {
    ThreadList list;
    for (int attempt = 0; attempt < kTries; ++attempt) {
        list = ThreadList{};
        if (list_once(memory, runtime, out, capacity, list)) {
            return list;
        }
    }
    list.torn = true;
    return list;
}

uint64_t gil_holder(const Memory& memory, const Runtime& runtime, uint64_t interpreter) {
    const Layout& layout = runtime.layout;
    uint64_t holder = 0;
    if (runtime.free_threaded) {
        return 0;
    }
    if (layout.runtime_gil_holder != 0) {
        return memory.get(runtime.address + layout.runtime_gil_holder, holder) ? holder : 0;
    }
    uint64_t gil = 0;
    int32_t locked = 0;
    const bool read = memory.get(interpreter + layout.interpreter_gil, gil) && gil != 0 &&
                      memory.get(gil + layout.gil_locked, locked) && memory.get(gil + layout.gil_holder, holder);
    return read && locked == 1 ? holder : 0;
}

}  // namespace titan::tracer::python
