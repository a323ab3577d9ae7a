// Programs that end in one way or another after they have used NCCL.
#include <signal.h>

#include "client.h"

namespace {

int killed() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    client::say("ready");
    raise(SIGKILL);
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"killed", killed}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
