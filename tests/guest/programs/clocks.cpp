// Ranks that work in rounds, each when the test says so. One rank may miss the last round: the others wait for it.
#include "client.h"

using client::say;

namespace {

int rounds() {
    client::Rank r;
    r.join();
    const int missed = client::number("GUEST_MISSES_ROUND", 0);
    for (int round = 1; round <= client::number("GUEST_ROUNDS", 3); ++round) {
        client::await("round" + std::to_string(round));
        if (round == missed) {
            say("round %d missed", round);
            continue;
        }
        r.reduce_and_sync();
        say("round %d", round);
    }
    say("ready");
    client::await("go");
    r.leave();
    say("finished");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"rounds", rounds}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
