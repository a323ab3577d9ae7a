// Finds the CPython of a process: which file defines it, which version it is, where its structures' fields lie.
//
// Nothing is believed unseen: version and offsets must agree with what lies in memory (interpreters own their threads,
// frames run code objects), or the answer is a reason in words.
// Thread-safety: any thread; async-signal-safe: no allocation, no lock, bounded time. Works on our own process and on
// others.
#pragma once

#include "base/memory.h"
#include "python_layout.h"

namespace titan::tracer::python {

struct Runtime {
    Layout layout;
    uint64_t address = 0;    // _PyRuntime
    uint64_t code_type = 0;  // PyCode_Type; the others likewise
    uint64_t text_type = 0;
    uint64_t bytes_type = 0;
    // PyGILState_GetThisThreadState, 0 if not exported: within the process, a thread's way to its own thread state that
    // needs no GIL and takes a pthread_getspecific.
    uint64_t this_thread_state = 0;
    uint64_t is_initialized = 0;  // Py_IsInitialized, 0 if not exported
    uint64_t module_base = 0;
    uint32_t version = 0;  // PY_VERSION_HEX: 0x030b07f0; before 3.11 only major and minor are known
    bool free_threaded = false;
    char module[256] = {};  // path of the file, cut at its front if longer
};

// "CPython 3.13.1 free-threaded"; "CPython 3.9" where no more is known.
constexpr size_t kVersionBytes = 48;
void version_text(const Runtime& runtime, char (&text)[kVersionBytes]);

enum class Search : uint8_t {
    kFound,
    kNoPython,    // no mapped file defines _PyRuntime
    kNotStarted,  // one does, but it runs no interpreter (not yet, or no more)
    kRefused,     // one does that we do not understand, or the process may not be read: `reason`
};

constexpr size_t kReasonBytes = 160;
constexpr size_t kFindRoomBytes = 8192;

// Looks through all mapped files. `room` (kFindRoomBytes) is scratch. `reason` says why nothing was found.
Search find_runtime(const Memory& memory, char* room, Runtime& runtime, char (&reason)[kReasonBytes]);

// The same for one file that is mapped at `base`.
Search examine_module(const Memory& memory, uint64_t base, const char* path, char* room, Runtime& runtime,
                      char (&reason)[kReasonBytes]);

}  // namespace titan::tracer::python
