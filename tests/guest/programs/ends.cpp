// Programs that end in one way or another after they have used NCCL.
#include <signal.h>

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

constexpr client::Scenario kScenarios[] = {{"killed", killed}, {"in_failure", in_failure}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
