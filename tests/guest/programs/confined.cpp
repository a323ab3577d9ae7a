// Programs that confine themselves by seccomp after their first calls.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "client.h"

using client::say;

namespace {

std::vector<sock_filter> only(std::initializer_list<long> calls, unsigned otherwise) {
    std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const long call : calls) {
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
        code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    code.push_back(BPF_STMT(BPF_RET | BPF_K, otherwise));
    return code;
}

void confine(std::vector<sock_filter> code, unsigned flags) {
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) {
        say("no filter may be set here");
        _exit(77);
    }
}

struct Confined {
    client::Rank* rank = nullptr;
    std::atomic<int> tid{0};
    std::atomic<bool> is{false};
    std::atomic<bool> stop{false};
    std::atomic<long> turns{0};
    int pipe[2] = {-1, -1};
};
Confined confined;

[[gnu::noinline]] void compute_until_told() {
    while (!confined.stop) {
        ++confined.turns;
    }
}

[[gnu::noinline]] void wait_for_byte() {
    char byte = 0;
    while (syscall(SYS_read, confined.pipe[0], &byte, 1) != 1) {
    }
    ++confined.turns;
}

// What a thread with a mode of its own may call is less than what ends a thread of libc.
template <void (*enter)(), void (*body)()>
void* run(void*) {
    confined.tid = static_cast<int>(gettid());
    confined.rank->reduce_and_sync();  // threads that call NCCL are sampled
    enter();
    confined.is = true;
    body();
    syscall(SYS_exit, 0);
    return nullptr;
}

bool exists() { return syscall(SYS_tgkill, getpid(), confined.tid.load(), 0) == 0; }

void await_until(bool (*condition)()) {
    while (!condition() && (confined.tid == 0 || exists())) {
        usleep(1000);
    }
}

void strict() {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        say("no strict mode may be entered here");
        _exit(77);
    }
}

void own_filter() { confine(only({SYS_read, SYS_write, SYS_exit, SYS_rt_sigreturn}, SECCOMP_RET_KILL_THREAD), 0); }

template <void (*enter)(), void (*body)()>
int thread() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    confined.rank = &r;
    REQUIRE(pipe(confined.pipe) == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, nullptr, run<enter, body>, nullptr) == 0);
    await_until([] { return confined.is.load(); });
    say("ready");
    client::await("go");
    for (int round = 0; round < client::number("GUEST_ROUNDS", 0); ++round) {
        r.reduce_and_sync();
        usleep(10000);
    }
    static long before;
    before = confined.turns;
    REQUIRE(write(confined.pipe[1], "x", 1) == 1);
    await_until([] { return confined.turns != before; });
    say(confined.turns != before ? "the confined thread lives" : "the confined thread is dead");
    confined.stop = true;
    std::fflush(stdout);
    _exit(0);
}

constexpr client::Scenario kScenarios[] = {
    {"strict", thread<strict, compute_until_told>},
    {"strict_waits", thread<strict, wait_for_byte>},
    {"own_filter", thread<own_filter, compute_until_told>},
    {"own_filter_waits", thread<own_filter, wait_for_byte>},
};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
