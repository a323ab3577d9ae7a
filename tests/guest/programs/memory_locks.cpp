// Real-time programs lock all their memory, what they have and what comes.
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <thread>

#include "client.h"

using client::say;

namespace {

[[gnu::noinline]] void waiting_for_go() {
    client::await("go");
    say("went");
}

int locked(bool before) {
    const auto lock = [] {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
            say("not allowed: %s", std::strerror(errno));
        }
    };
    if (before) {
        lock();
    }
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    if (!before) {
        lock();
    }
    std::thread thread(waiting_for_go);
    say("ready");
    thread.join();
    r.leave();
    return 0;
}

// What comes is locked, and may be 8 MiB: too little for the recorder.
int little() {
    constexpr rlim_t kMayLockBytes = 8 << 20;
    const rlimit limit{kMayLockBytes, kMayLockBytes};
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &header, none) != 0 ||
        mlockall(MCL_FUTURE) != 0) {
        say("not allowed: %s", std::strerror(errno));
        return 77;
    }
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    constexpr size_t kBlockBytes = 1 << 20;
    int blocks = 0;
    while (mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
        ++blocks;
    }
    say("at least 4 of 8 blocks are to be had: %d", blocks >= 4);
    return 0;
}

constexpr client::Scenario kScenarios[] = {
    {"before", [] { return locked(true); }}, {"after", [] { return locked(false); }}, {"little", little}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
