// Real-time programs lock all their memory, what they have and what comes.
#include <errno.h>
#include <sys/mman.h>

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

constexpr client::Scenario kScenarios[] = {{"before", [] { return locked(true); }},
                                           {"after", [] { return locked(false); }}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
