// Entry into the process, and its exit. The constructor does next to nothing: most processes that inherit the preload
// never touch NCCL, and must not notice us.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "api.h"
#include "ask_kernel_name.h"
#include "base/loaded_objects.h"
#include "cupti_mode.h"
#include "kept_libraries.h"
#include "libc_function.h"
#include "libc_wrappers.h"
#include "nccl_copies.h"
#include "plugin_env.h"
#include "tracer/record.h"
#include "tracer/warn.h"
#include "vendor_apis.h"

namespace titan::interpose {

namespace {

// The hot path takes a function's name from a table of this size without looking.
static_assert(kApiIds <= tracer::kMaxApis, "a row more than there is room for: raise kMaxApis in tracer/record.h");

// Work put off until the first session, because most processes have none.
void start_ways_in(bool cupti) {
    find_exec_functions();
    report_plugins_of_others();
    if (cupti && !start_cupti()) {
        tracer::set_cuda_interposed(true);
    }
}

// Preloaded twice, by different paths (a system's installation and a virtual environment's): the first, which all calls
// reach first, records, and the others record nothing. One path that comes twice is loaded once.
bool is_behind_another_copy() {
    const LoadedObject first = object_called(kOurSoname);
    return first && !is_ours(first.dynamic);
}

// The next definition of each exit function, so that other preloads keep working. A process may exit at once (a
// watchdog, a child of vfork) because a thread hangs in dlopen with the loader's lock held, or before our constructor.
struct WayOut {
    const char* name;
    std::atomic<void*> real{nullptr};

    void* find() { return libc_function(real, name); }
};
constinit WayOut way_exit{"_exit"};
constinit WayOut way_Exit{"_Exit"};
constinit WayOut way_quick_exit{"quick_exit"};

__attribute__((constructor)) void enter_process() {
    if (!runs_with_glibc()) {
        return;  // the wrappers pass calls on, and without bindings no session starts
    }
    note_loaded_at_start();
    tracer::note_standard_error();
    find_signal_functions();
    find_jump_functions();
    for (WayOut* const way_out : {&way_exit, &way_Exit, &way_quick_exit}) {
        way_out->find();
    }
    const bool behind_another_copy = is_behind_another_copy();
    tracer::set_bindings({.apis = {api_names, kApiIds},
                          .kernel_name = kernel_name,
                          .find_driver = find_driver_api,
                          .find_nvml = find_nvml_api,
                          .nccl_version = nccl_version,
                          .session_started = start_ways_in,
                          .other_copy_records = behind_another_copy});
    if (!behind_another_copy) {
        offer_plugins();
    }
}

__attribute__((destructor)) void leave_process() { tracer::on_process_exit(-1); }

[[noreturn]] void leave_by(WayOut& way_out, int status) {
    if (auto* const real = reinterpret_cast<void (*)(int)>(way_out.find()); real != nullptr) {
        real(status);
    }
    for (;;) {
        syscall(SYS_exit_group, status);
    }
}

[[noreturn]] void leave_at_once(WayOut& way_out, int status) {
    tracer::on_process_exit(status);
    leave_by(way_out, status);
}

}  // namespace

}  // namespace titan::interpose

// Programs that leave without destructors (Python's os._exit) still leave in order: their ring says so.
extern "C" void _exit(int status) { titan::interpose::leave_at_once(titan::interpose::way_exit, status); }
// Its handlers run first, one of the session's among them: a process that hangs in them has not left.
extern "C" void quick_exit(int status) noexcept {
    titan::tracer::note_quick_exit(status);
    titan::interpose::leave_by(titan::interpose::way_quick_exit, status);
}
extern "C" void _Exit(int status) { titan::interpose::leave_at_once(titan::interpose::way_Exit, status); }
