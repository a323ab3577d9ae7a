#include "call_sites_setup.h"

#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "map_private.h"
#include "python/memory.h"
#include "python/runtime.h"
#include "text.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kFirstPause_ns = 1'000'000'000;
constexpr uint64_t kLongestPause_ns = 60'000'000'000;

struct Setup {
    CallPython python;
    char room[python::kFindRoom_bytes];
    uint64_t next_look_ns;
    uint64_t pause_ns;
    bool settled;
};
constinit Setup* setup = nullptr;

template <typename Function>
bool bind(Function& function, uint64_t address) {
    function = reinterpret_cast<Function>(address);
    return address != 0;
}

void say_found(CallSites& sites, const python::Runtime& runtime) {
    char text[64];
    TextWriter writer(text, sizeof(text));
    writer.format("CPython %u.%u", runtime.version >> 24, runtime.version >> 16 & 0xff);
    if ((runtime.version & 0xffff) != 0) {
        writer.format(".%u", runtime.version >> 8 & 0xff);
    }
    writer.text(runtime.free_threaded ? " free-threaded" : "");
    sites.say_python(text);
}

void refuse(CallSites& sites, const char* reason) {
    char text[python::kReason_bytes + 64];
    format_text(text, sizeof(text), "Python frames of calls are missing: %s", reason);
    sites.say_python(text);
    warn_once("%s", text);
    setup->settled = true;
}

void look_for_python(CallSites& sites) {
    python::Memory memory;
    if (python::open_memory(getpid(), memory) != 0) {
        refuse(sites, "the system lets no process read memory by system call");
        return;
    }
    python::Runtime& runtime = setup->python.runtime;
    char reason[python::kReason_bytes] = "";
    const python::Search found = python::find_runtime(memory, setup->room, runtime, reason);
    python::close_memory(memory);
    if (found == python::Search::kRefused) {
        refuse(sites, reason);
    } else if (found == python::Search::kFound) {
        if (bind(setup->python.this_thread_state, runtime.this_thread_state) &&
            bind(setup->python.is_initialized, runtime.is_initialized)) {
            say_found(sites, runtime);
            sites.set_python(&setup->python);
            setup->settled = true;
        } else {
            refuse(sites, "this CPython does not export PyGILState_GetThisThreadState and Py_IsInitialized");
        }
    }
}

}  // namespace

void start_call_sites(Session& session) {
    setup = nullptr;  // of the process that we were forked from
    if (session.call_sites.wants(format::kPythonSites) && (setup = map_private<Setup>()) != nullptr) {
        look_for_python(session.call_sites);
        setup->pause_ns = kFirstPause_ns;
        setup->next_look_ns = monotonic_now_ns() + kFirstPause_ns;
    }
}

void tend_call_sites(Session& session) {
    if (setup == nullptr || setup->settled || monotonic_now_ns() < setup->next_look_ns) {
        return;
    }
    look_for_python(session.call_sites);
    setup->pause_ns = setup->pause_ns * 2 < kLongestPause_ns ? setup->pause_ns * 2 : kLongestPause_ns;
    setup->next_look_ns = monotonic_now_ns() + setup->pause_ns;
}

}  // namespace titan::tracer
