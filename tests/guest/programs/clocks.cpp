// Ranks that work in rounds, each when the test says so. One rank may miss the last round: the others wait for it.
#include <titantrace.h>

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

// Each round lies in a span and in a call, which the test stretches: rank 1 is late for its half.
int marked() {
    client::Rank r;
    r.join();
    const int missed = client::number("GUEST_MISSES_ROUND", 0);
    for (int round = 1; round <= client::number("GUEST_ROUNDS", 3); ++round) {
        const std::string number = std::to_string(round);
        client::await("round" + number);
        titan_step(round);
        titan_span_begin("round");
        say("in round %d", round);
        if (r.rank == 1) {
            client::await("half" + number);
        }
        if (r.rank == 1 && round == missed) {
            say("round %d missed", round);
            client::await("go");
            return 0;
        }
        r.reduce_and_sync();
        titan_metric("loss", 0.5 * round);
        titan_span_end();
        say("round %d", round);
    }
    say("ready");
    client::await("go");
    r.leave();
    say("finished");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"rounds", rounds}, {"marked", marked}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
