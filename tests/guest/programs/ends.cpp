// Programs that end in one way or another after they have used NCCL.
#include <pthread.h>
#include <signal.h>

#include <thread>

#include "client.h"

namespace {

void work() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    client::say("ready");
}

int killed() {
    work();
    raise(SIGKILL);
    return 0;
}

int in_failure() {
    work();
    return 1;
}

// The C library ends the process when its last thread leaves.
int last_thread() {
    REQUIRE(std::atexit([] { client::say("handled"); }) == 0);
    std::thread([] {
        ncclUniqueId id;
        NCCL(ncclGetUniqueId(&id));
        usleep(200'000);
        client::say("the last thread leaves");
    }).detach();
    pthread_exit(nullptr);
}

[[gnu::noinline]] void work_without_main() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    client::say("ready");
    client::await("go");
    r.leave();
    client::say("finished");
}

int without_main() {
    std::thread([] {
        work_without_main();
        exit(0);
    }).detach();
    pthread_exit(nullptr);
}

constexpr client::Scenario kScenarios[] = {
    {"killed", killed}, {"in_failure", in_failure}, {"last_thread", last_thread}, {"without_main", without_main}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
