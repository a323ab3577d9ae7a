#include "call_sites_setup.h"

#include <string.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/map_private.h"
#include "base/memory.h"
#include "base/text.h"
#include "call_frame_info.h"
#include "cold_lock.h"
#include "log.h"
#include "modules.h"
#include "runtime.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kFirstPauseNs = 1'000'000'000;
constexpr uint64_t kLongestPauseNs = 60'000'000'000;

constexpr size_t kMaxModules = 4096;

// Pauses between searches for something that was not there.
struct Pauses {
    uint64_t pause_ns = 0;
    uint64_t next_ns = 0;
    bool over() {
        const uint64_t now_ns = monotonic_now_ns();
        if (now_ns < next_ns) {
            return false;
        }
        pause_ns = pause_ns == 0 ? kFirstPauseNs : pause_ns * 2 < kLongestPauseNs ? pause_ns * 2 : kLongestPauseNs;
        next_ns = now_ns + pause_ns;
        return true;
    }
};

struct Setup {
    CallPython python;
    char room[python::kFindRoomBytes];
    Pauses python_pauses;
    bool python_settled;

    CallNative native;
    UnwindRules::Row rules[UnwindRules::kRows];
    // The list that rules are learned from, and the one that the next is made in. The former, rules and generation
    // change under the cold lock.
    Module modules[2][kMaxModules];
    ModuleList lists[2];
    uint32_t current;
    char maps[kMapsBytes];
    std::atomic<bool> unknown_code;  // addresses outside of all modules were met
    Pauses module_pauses;
};
constinit Setup* setup = nullptr;

template <typename Function>
bool bind(Function& function, uint64_t address) {
    function = reinterpret_cast<Function>(address);
    return address != 0;
}

void refuse(CallSites& sites, const char* reason) {
    char text[python::kReasonBytes + 64];
    format_text(text, sizeof(text), "Python frames of calls are missing: %s", reason);
    sites.say_python(text);
    warn_once("%s", text);
    setup->python_settled = true;
}

void look_for_python(CallSites& sites) {
    Memory memory;
    if (open_memory(getpid(), memory) != 0) {
        refuse(sites, "the system lets no process read memory by system call");
        return;
    }
    python::Runtime& runtime = setup->python.runtime;
    char reason[python::kReasonBytes] = "";
    const python::Search found = python::find_runtime(memory, setup->room, runtime, reason);
    close_memory(memory);
    if (found == python::Search::kRefused) {
        refuse(sites, reason);
    } else if (found == python::Search::kFound) {
        if (bind(setup->python.this_thread_state, runtime.this_thread_state) &&
            bind(setup->python.is_initialized, runtime.is_initialized)) {
            char version[python::kVersionBytes];
            python::version_text(runtime, version);
            sites.say_python(version);
            sites.set_python(&setup->python);
            setup->python_settled = true;
        } else {
            refuse(sites, "this CPython does not export PyGILState_GetThisThreadState and Py_IsInitialized");
        }
    }
}

bool same_module(const Module& a, const Module& b) {
    return a.begin == b.begin && a.end == b.end && memcmp(a.build_id, b.build_id, sizeof(a.build_id)) == 0 &&
           same_text(a.path, b.path);
}

// Tells the reader of the ring about modules that were not there before.
bool keep_new_modules(CallSites& sites, const ModuleList& before, const ModuleList& now) {
    bool any = false;
    for (size_t i = 0; i < now.count; ++i) {
        const Module* const known = before.find(now.modules[i].begin);
        if (known == nullptr || !same_module(*known, now.modules[i])) {
            sites.add_module(row_of(now.modules[i]), now.modules[i].path);
            any = true;
        }
    }
    return any;
}

void list_native_modules(CallSites& sites) {
    Setup& of = *setup;
    const uint32_t next = 1 - of.current;
    list_modules(of.lists[next], of.maps, sizeof(of.maps));
    const bool changed = keep_new_modules(sites, of.lists[of.current], of.lists[next]);
    const ColdLock lock;
    if (!lock) {
        return;  // listed again when the next unknown address is met
    }
    of.current = next;
    if (changed) {
        of.native.generation.fetch_add(1, std::memory_order_relaxed);
    }
}

// Runs in the thread that met the address, once for each address.
bool learn_unwind_rule(uint64_t address) {
    Setup& of = *setup;
    Module module{};
    UnwindRule rule{UnwindRule::kUnknown};
    {
        const ColdLock lock;
        const Module* const found = lock ? of.lists[of.current].find(address) : nullptr;
        if (found != nullptr) {
            module = *found;
        } else {
            of.unknown_code.store(true, std::memory_order_relaxed);
            rule.frame_words = of.native.generation.load(std::memory_order_relaxed);
        }
    }
    if (module.begin != module.end) {
        rule = read_unwind_rule(module, address);  // reads the module's file: it may take long
    }
    const ColdLock lock;
    return lock && of.native.rules.set(address, rule);
}

void start_native(CallSites& sites) {
    Setup& of = *setup;
    of.native.rules.start(of.rules);
    of.native.learn = learn_unwind_rule;
    of.lists[0] = {of.modules[0], kMaxModules, 0};
    of.lists[1] = {of.modules[1], kMaxModules, 0};
    list_native_modules(sites);
    const ModuleList& list = of.lists[of.current];
    if (list.count == 0) {
        sites.say_native("native frames of calls are missing: the system lets no process read memory by system call");
        return;
    }
    const Module* const own = list.find(reinterpret_cast<uint64_t>(&learn_unwind_rule));
    of.native.own = own != nullptr ? AddressRange{own->begin, own->end} : AddressRange{};
    sites.set_native(&of.native);
}

}  // namespace

void start_call_sites(CallSites& sites) {
    setup = nullptr;  // it belongs to the process that we were forked from
    if (!sites.on() || (setup = map_private<Setup>()) == nullptr) {
        return;
    }
    if (sites.wants(format::kNativeSites)) {
        start_native(sites);
    }
    setup->python_settled = !sites.wants(format::kPythonSites);
    poll_call_sites(sites);
}

void poll_call_sites(CallSites& sites) {
    if (setup == nullptr) {
        return;
    }
    if (!setup->python_settled && setup->python_pauses.over()) {
        look_for_python(sites);
    }
    if (setup->unknown_code.load(std::memory_order_relaxed) && setup->module_pauses.over()) {
        setup->unknown_code.store(false, std::memory_order_relaxed);
        list_native_modules(sites);
    }
}

}  // namespace titan::tracer
