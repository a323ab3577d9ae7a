// How much later one host's clock shows than another's.
#include "host_clocks.h"

#include <doctest/doctest.h>

using namespace titan::analyzer;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// Two hosts that made a communicator at one moment: host b's clock showed ten seconds more then.
Run two_hosts() {
    Run run;
    run.processes.resize(2);
    run.processes[0].host = "a";
    run.processes[1].host = "b";
    for (size_t i = 0; i < 2; ++i) {
        Member& member = run.processes[i].members.emplace_back();
        member.communicator = 0;
        member.ready_ns = 100 * kSecondNs + static_cast<int64_t>(i) * 10 * kSecondNs;
    }
    return run;
}

void add_all_reduce(Run& run, uint64_t sequence, int64_t on_a_ns, int64_t on_b_ns, bool ends_known) {
    const int64_t moments[] = {on_a_ns, on_b_ns};
    for (size_t i = 0; i < 2; ++i) {
        Arrival arrival;
        arrival.sequence = sequence;
        arrival.kind = OpKind::kAllReduce;
        arrival.entered_ns = moments[i] - (i == 0 ? kSecondNs : 0);  // a comes a second earlier
        arrival.ended_ns = ends_known ? moments[i] : 0;
        run.processes[i].members[0].arrivals.push_back(arrival);
    }
}

}  // namespace

TEST_CASE("the newest collective that two hosts made together tells how their clocks differ") {
    Run run = two_hosts();
    CHECK(clock_ahead_ns(run, 0, 1) == 10 * kSecondNs);  // the creation, where there is no call
    // b's clock was set back by 70 s since.
    add_all_reduce(run, 0, 200 * kSecondNs, 140 * kSecondNs, true);
    CHECK(clock_ahead_ns(run, 0, 1) == -60 * kSecondNs);
    CHECK(clock_ahead_ns(run, 1, 0) == 60 * kSecondNs);
    // Where no end is known, the moments at which both came have to do.
    add_all_reduce(run, 1, 300 * kSecondNs, 240 * kSecondNs, false);
    CHECK(clock_ahead_ns(run, 0, 1) == -59 * kSecondNs);
}

TEST_CASE("processes of one host have one clock, and hosts that share nothing cannot be compared") {
    Run run = two_hosts();
    run.processes[1].host = "a";
    CHECK(clock_ahead_ns(run, 0, 1) == 0);
    run.processes[1].host = "b";
    run.processes[1].members.clear();
    CHECK_FALSE(clock_ahead_ns(run, 0, 1).has_value());
}
