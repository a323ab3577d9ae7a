#include "check.h"

#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace simgpu {

namespace {

thread_local int t_rank = -1;
std::atomic<pid_t> g_ending{0};  // the thread that ends the process

void speak(const char* format, va_list args) {
    char text[512];
    std::vsnprintf(text, sizeof(text), format, args);
    // One write, so that the lines of many ranks stay whole.
    std::fprintf(stderr, "rank %d: %s\n", t_rank, text);
}

}  // namespace

void set_speaker(int rank) { t_rank = rank; }

void say(const char* format, ...) {
    va_list args;
    va_start(args, format);
    speak(format, args);
    va_end(args);
}

void begin_end() {
    pid_t nobody = 0;
    if (!g_ending.compare_exchange_strong(nobody, gettid()) && nobody != gettid()) {
        while (true) {
            pause();
        }
    }
}

void die(ExitCode code, const char* format, ...) {
    begin_end();
    va_list args;
    va_start(args, format);
    speak(format, args);
    va_end(args);
    std::fflush(nullptr);
    _exit(code);
}

void check_cuda(int result, const char* call) {
    if (result != cudaSuccess) {
        die(kExitApiError, "%s: %s", call, cudaGetErrorString(static_cast<cudaError_t>(result)));
    }
}

void check_nccl(int result, const char* call) {
    if (result != ncclSuccess) {
        // A call can be the first to meet an error that happened elsewhere, before the watchdog looks.
        const bool elsewhere = result == ncclRemoteError || result == ncclTimeout;
        die(elsewhere ? kExitAsyncError : kExitApiError, "%s: %s", call,
            ncclGetErrorString(static_cast<ncclResult_t>(result)));
    }
}

}  // namespace simgpu
