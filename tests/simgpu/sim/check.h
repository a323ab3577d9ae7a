// How the training programs end when something fails. The numbers are part of their documented interface.
#pragma once

namespace simgpu {

enum ExitCode {
    kExitOk = 0,
    kExitApiError = 1,
    kExitUsage = 2,
    kExitWrongData = 3,
    kExitAsyncError = 4,
    kExitWatchdog = 5,
    kExitTimeout = 124,
};

// Says "rank N: ..." on stderr and ends the process at once: no destructor may wait for a device that hangs. Of several
// threads the first to call this or begin_end() does; the others wait for it.
[[noreturn, gnu::format(printf, 2, 3)]] void die(ExitCode code, const char* format, ...);
// For who must still do something before die() that lets other threads find errors.
void begin_end();
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);
void set_speaker(int rank);  // of this thread

void check_cuda(int result, const char* call);
void check_nccl(int result, const char* call);

#define CUDA_CHECK(call) ::simgpu::check_cuda((call), #call)
#define NCCL_CHECK(call) ::simgpu::check_nccl((call), #call)

}  // namespace simgpu
