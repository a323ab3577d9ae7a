// Ways out of a process, and calls that are to save it, while another thread hangs in dlopen and so holds the loader's
// lock.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "client.h"

using client::Rank;
using client::say;

namespace {

void hold_loader() {
    const std::string opened = client::meeting("opened");
    setenv("E2E_OPENED", opened.c_str(), 1);
    pthread_t thread;
    REQUIRE(pthread_create(
                &thread, nullptr, [](void*) { return dlopen(std::getenv("E2E_SLOW_LIBRARY"), RTLD_NOW); }, nullptr) ==
            0);
    client::await("opened");
}

int leave_dormant() {
    hold_loader();
    say("leaving");
    _exit(3);
}

template <typename Leave>
int record_and(Leave leave) {
    Rank r;
    r.join();
    r.reduce_and_sync();
    hold_loader();
    say("leaving");
    leave(r);
    return 0;
}

// Its first call in this process.
void abort_communicator(Rank& r) {
    r.all_reduce();
    say("abort returned %d", ncclCommAbort(r.comm));
    _exit(4);
}

int leave_in_order() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    r.leave();
    say("leaving");
    quick_exit(0);
}

// CUDA functions that this program has not called before.
int first_calls() {
    CUDA(cudaFree(nullptr));
    hold_loader();
    cudaEvent_t event;
    CUDA(cudaEventCreate(&event));
    CUDA(cudaEventRecord(event));
    CUDA(cudaEventSynchronize(event));
    say("called");
    _exit(5);
}

int first_signal_actions() {
    hold_loader();
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    say("%d %d", sigaction(SIGUSR2, &action, nullptr), signal(SIGUSR1, SIG_IGN) == SIG_DFL);
    _exit(6);
}

// What the program was told by the loader is still there after our look-ups.
int loader_error() {
    CUDA(cudaFree(nullptr));  // opens the driver
    REQUIRE(dlsym(RTLD_DEFAULT, "no_such_function") == nullptr);
    CUDA(cudaDeviceSynchronize());
    const char* const text = dlerror();
    say("%s", text != nullptr ? text : "no error");
    return 0;
}

constexpr client::Scenario scenarios[] = {
    {"dormant", leave_dormant},
    {"_exit", [] { return record_and([](Rank&) { _exit(3); }); }},
    {"_Exit", [] { return record_and([](Rank&) { _Exit(3); }); }},
    {"quick_exit", [] { return record_and([](Rank&) { quick_exit(3); }); }},
    {"quick_exit-in-order", leave_in_order},
    {"abort", [] { return record_and(abort_communicator); }},
    {"first-calls", first_calls},
    {"first-signal-actions", first_signal_actions},
    {"loader-error", loader_error},
};

}  // namespace

int main(int argc, char** argv) { return client::run(scenarios, argc, argv); }
