// Into the process and out of it. The constructor does next to nothing: most processes that inherit the preload never
// touch NCCL, and must not notice us.
#include <dlfcn.h>
#include <unistd.h>

#include "api.h"
#include "cupti_mode.h"
#include "driver_api.h"
#include "kernel_names.h"
#include "nccl_copies.h"
#include "plugin_env.h"
#include "tracer/record.h"

namespace titan::interpose {

namespace {

// What waits for the first session, because most processes have none.
void start_ways_in(bool cupti) {
    report_plugins_of_others();
    if (cupti && !start_cupti()) {
        tracer::set_cuda_interposed(true);
    }
}

__attribute__((constructor)) void enter_process() {
    tracer::set_bindings({.apis = {api_names, kApiIds},
                          .kernel_name = kernel_name,
                          .find_driver = find_driver_api,
                          .nccl_version = nccl_version,
                          .session_started = start_ways_in});
    offer_plugins();
}

__attribute__((destructor)) void leave_process() { tracer::on_process_exit(-1); }

[[noreturn]] void leave_at_once(const char* name, int status) {
    tracer::on_process_exit(status);
    if (auto* const real = reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, name)); real != nullptr) {
        real(status);
    }
    __builtin_trap();  // libc without _exit
}

}  // namespace

}  // namespace titan::interpose

// Programs that leave without destructors (Python's os._exit) still leave in order: their ring says so.
extern "C" void _exit(int status) { titan::interpose::leave_at_once("_exit", status); }
extern "C" void _Exit(int status) { titan::interpose::leave_at_once("_Exit", status); }
