// Programs that bound a wait by an alarm whose handler jumps out of it.
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include "client.h"
#include "simgpu.h"

using client::Rank;
using client::say;

namespace {

constexpr useconds_t kLimitUs = 200'000;
constexpr useconds_t kOtherWorkUs = 3'000'000;

sigjmp_buf way_out;

void jump(int) { siglongjmp(way_out, 1); }

void set_alarm() {
    struct sigaction action {};
    action.sa_handler = jump;
    REQUIRE(sigaction(SIGALRM, &action, nullptr) == 0);
    const itimerval once{.it_interval = {0, 0}, .it_value = {0, kLimitUs}};
    REQUIRE(setitimer(ITIMER_REAL, &once, nullptr) == 0);
}

// Waits for a kernel that takes its time, gives up, and does other things on another stream.
int out_of_a_wait() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    REQUIRE(simgpu_launch_spin(2'500'000'000, r.stream) == 0);
    if (sigsetjmp(way_out, 1) == 0) {
        set_alarm();
        r.sync();
        say("the wait was over too soon");
    }
    say("left the wait");
    usleep(kOtherWorkUs);
    CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    r.reduce_and_sync();
    say("done");
    _exit(0);
}

// A peer that never comes.
int out_of_a_creation() {
    Rank r;
    r.size = 1;
    r.join();
    r.reduce_and_sync();
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    ncclComm_t never = nullptr;
    if (sigsetjmp(way_out, 1) == 0) {
        set_alarm();
        ncclCommInitRank(&never, 2, id, 0);
        say("the creation was over too soon");
    }
    say("left the creation");
    usleep(kOtherWorkUs);
    r.reduce_and_sync();
    say("done");
    _exit(0);
}

constexpr client::Scenario kScenarios[] = {{"wait", out_of_a_wait}, {"creation", out_of_a_creation}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
