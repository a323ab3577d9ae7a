// Clocks, lateness and slow collectives, on timed jobs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "align_clocks.h"
#include "bandwidth.h"
#include "findings_of.h"
#include "long_steps.h"
#include "nightly.h"
#include "patterns.h"
#include "slow_causes.h"
#include "steps.h"
#include "timing.h"
#include "timing_draw.h"

namespace {

using namespace titan;
using analyzer::ClockSample;
using analyzer::Finding;
using analyzer::FindingKind;
using analyzer::LatePattern;
using format::GpuProgressMethod;
using synth::TimedFault;
using synth::TimedJob;
using synth::TimedOptions;

struct Timed {
    explicit Timed(const TimedOptions& options)
        : job(options), run(test::run_of(job)), timing(analyzer::analyze_timing(run)) {
        analyzer::Diagnosis diagnosis;
        analyzer::add_timing_findings(run, timing, {}, diagnosis);
        for (Finding& finding : diagnosis.findings) {
            (finding.kind == FindingKind::kSlowStep ? slow_steps : findings).push_back(std::move(finding));
        }
    }
    // How far the common time of a moment is off on a rank, in ns.
    double clock_error(int rank, double time_ns) {
        const double own_ns = time_ns + job.clock_error_ns(job.host_of(rank), time_ns);
        const auto realtime_ns = static_cast<int64_t>(synth::kEpochRealtimeNs) + static_cast<int64_t>(own_ns);
        const int64_t common_ns = timing.clocks.common_ns(static_cast<uint32_t>(rank), realtime_ns);
        return std::abs(static_cast<double>(common_ns - static_cast<int64_t>(synth::kEpochRealtimeNs)) - time_ns);
    }
    const analyzer::RankTiming& rank(int wanted) const {
        return *std::find_if(timing.ranks.begin(), timing.ranks.end(),
                             [&](const auto& rank) { return rank.rank == wanted; });
    }
    // The cause that is in the calls themselves.
    analyzer::SlowCause slow_link() const {
        for (const analyzer::SlowCause& cause : analyzer::slow_causes(run, timing).causes) {
            if (cause.of_class == analyzer::CauseClass::kSlowLink) {
                return cause;
            }
        }
        return {};
    }
    int64_t since(int wanted) const {
        const auto& timed = rank(wanted);
        return timing.axes[timed.axis].keys[timed.shape.first];
    }

    TimedJob job;
    analyzer::Run run;
    analyzer::Timing timing;
    std::vector<Finding> findings;
    std::vector<Finding> slow_steps;  // what no rank and no collective is the cause of
};

TimedOptions job_of(int hosts, uint64_t seed = 7) {
    TimedOptions options;
    options.hosts = hosts;
    options.seed = seed;
    options.clock_offset_ms = 40;
    options.clock_drift_ppm = 30;
    return options;
}

TimedOptions with_fault(TimedFault::Kind kind, int rank, int from_step, double share = 0.4) {
    TimedOptions options = job_of(2);
    options.fault.kind = kind;
    options.fault.rank = rank;
    options.fault.from_step = from_step;
    options.fault.share = share;
    return options;
}

}  // namespace

TEST_CASE("clocks: offsets and drifts are recovered within the bound that is said") {
    for (const auto method : {GpuProgressMethod::kTiming, GpuProgressMethod::kWrites}) {
        for (uint64_t seed = 1, last = static_cast<uint64_t>(test::rounds(8, 20)); seed <= last; ++seed) {
            TimedOptions options = job_of(2 + static_cast<int>(seed % 5), seed);
            options.method = method;
            Timed timed(options);
            REQUIRE(timed.timing.clocks.aligned_hosts() == static_cast<size_t>(options.hosts));
            CHECK(timed.timing.clocks.largest_bound_ns() < (method == GpuProgressMethod::kTiming ? 1e6 : 6e6));
            CHECK(timed.timing.clocks.jumping_hosts() == 0);
            for (int rank = 0; rank < timed.job.size(); ++rank) {
                for (const double time_ns : {10.1e9, 12e9, timed.job.end_ns()}) {
                    CHECK(timed.clock_error(rank, time_ns) <=
                          timed.timing.clocks.bound_ns(static_cast<uint32_t>(rank)) + 1000);
                }
            }
        }
    }
}

TEST_CASE("clocks: a straggling host does not pull its clock along") {
    TimedOptions options = with_fault(TimedFault::kSlowSpan, 5, 0, 0.8);
    options.ranks_per_host = 1;
    options.tp = 1;
    options.hosts = 6;
    Timed timed(options);
    CHECK(timed.timing.clocks.largest_bound_ns() < 2e6);
    CHECK(timed.clock_error(5, timed.job.end_ns()) <= timed.timing.clocks.bound_ns(5) + 1000);
}

TEST_CASE("clocks: a clock that is set while the job runs is cut there") {
    for (const double jump_ms : {250.0, -250.0}) {
        TimedOptions options = job_of(3);
        options.clock_jump_ms = jump_ms;
        Timed timed(options);
        CHECK(timed.timing.clocks.jumping_hosts() == 1);
        CHECK(timed.timing.clocks.hosts[2].stretches.size() == 2);
        CHECK(timed.clock_error(8, timed.job.end_ns()) <= timed.timing.clocks.bound_ns(8) + 1000);
        CHECK(timed.clock_error(8, 10.2e9) <= timed.timing.clocks.bound_ns(8) + 1000);
        CHECK(timed.findings.empty());
    }
}

TEST_CASE("clocks: one host has one clock") {
    Timed timed(job_of(1));
    CHECK(timed.timing.clocks.hosts.size() == 1);
    CHECK(timed.timing.clocks.summary().empty());
    CHECK(timed.timing.clocks.common_ns(0, 1234) == 1234);
}

TEST_CASE("clocks: hosts without a common communicator are not aligned, and that is said") {
    TimedJob job(job_of(2));
    analyzer::Run run = test::run_of(job);
    for (analyzer::Process& process : run.processes) {
        // Only the groups inside a host are left.
        std::erase_if(process.members,
                      [&](const analyzer::Member& member) { return process.text(member.name) != "tp"; });
        process.entries.clear();
    }
    analyzer::link(run);
    const analyzer::Clocks clocks = analyzer::align_clocks(run);
    CHECK(clocks.aligned_hosts() == 1);
    CHECK(!clocks.hosts[1].aligned);
    CHECK(clocks.common_ns(7, 5'000'000'000) == 5'000'000'000);
    CHECK(clocks.summary().find("could not be aligned") != std::string::npos);
}

TEST_CASE("clocks: a chain of hosts adds the bounds up") {
    TimedOptions options = job_of(4);
    TimedJob job(options);
    analyzer::Run run = test::run_of(job);
    for (analyzer::Process& process : run.processes) {
        std::erase_if(process.members,
                      [&](const analyzer::Member& member) { return process.text(member.name) != "dp"; });
        process.entries.clear();
    }
    // Rank 8 and its like are in one communicator with host 1, and in another one with host 3.
    analyzer::link(run);
    const analyzer::Clocks clocks = analyzer::align_clocks(run);
    CHECK(clocks.aligned_hosts() == 4);
}

TEST_CASE("clocks: contradictions and hostile times are survived") {
    std::vector<ClockSample> samples;
    for (int i = 0; i < 10; ++i) {
        samples.push_back({i * 1'000'000'000LL, -1e5 + i, 1e5 + i, 0, 1e5});
    }
    samples.push_back({INT64_MAX, 5e18, -5e18, 0, 0});         // impossible by itself
    samples.push_back({4'500'000'000LL, 9e8, 9.1e8, 9e8, 0});  // one wild comparison is no set clock
    const auto stretches = analyzer::fit_clock(samples);
    for (const auto& stretch : stretches) {
        CHECK(std::abs(stretch.offset_ns) <= 2e5);
    }
    CHECK(!stretches.empty());
    CHECK(analyzer::fit_clock({}).empty());
}

TEST_CASE("clocks: ends that looks see leave few offsets to choose from, whose mean is nearer than their median") {
    std::vector<ClockSample> samples;
    for (int i = 0; i < 50; ++i) {  // ends of one moment, on clocks that agree
        const double apart_ns = i % 5 == 0 ? -1.6e6 : i % 5 == 1 ? 0 : 0.5e6;
        samples.push_back({i * 100'000'000LL, -4e6, 4e6, apart_ns, 3e6});
    }
    const auto stretches = analyzer::fit_clock(samples);
    REQUIRE(stretches.size() == 1);
    CHECK(std::abs(stretches.front().offset_ns) < 0.1e6);
}

TEST_CASE("a rank whose host is slow in a span is named, with the span") {
    Timed timed(with_fault(TimedFault::kSlowSpan, 5, 20));
    REQUIRE(timed.findings.size() == 1);
    const Finding& finding = timed.findings.front();
    CHECK(finding.kind == FindingKind::kStraggler);
    CHECK(finding.ranks == std::vector<int>{5});
    CHECK(!finding.hangs);
    CHECK(timed.rank(5).shape.pattern == LatePattern::kPersistent);
    CHECK(timed.since(5) == 20);
    CHECK(timed.rank(5).slow_part == "span data");
    CHECK(timed.rank(5).shape.typical_ns == doctest::Approx(40e6).epsilon(0.2));
    CHECK(finding.summary.text().find("step 20") != std::string::npos);
    // Rank 4 is its tensor parallel peer: late in dp because rank 5 was.
    CHECK(timed.rank(4).shape.pattern == LatePattern::kNone);
    CHECK(timed.rank(4).lost_ns < timed.rank(5).lost_ns / 10);
}

TEST_CASE("a host that is slow in one piece is told from one that launches more") {
    const std::string gap = "without a call to CUDA or NCCL";
    const std::string launches = "pieces of work in such a step";
    const auto why = [](const Timed& timed) {
        std::string all;
        for (const auto& line : timed.findings.at(0).evidence) {
            all += line.text() + "\n";
        }
        return all;
    };
    const std::string piece = why(Timed(with_fault(TimedFault::kSlowSpan, 5, 20)));
    CHECK(piece.find(gap) != std::string::npos);
    CHECK(piece.find(launches) == std::string::npos);
    TimedOptions options = with_fault(TimedFault::kManyLaunches, 5, 20);
    options.fault.span = "forward";
    Timed timed(options);
    REQUIRE(timed.findings.size() == 1);
    CHECK(timed.rank(5).slow_part == "span forward");
    CHECK(why(timed).find("it hands its GPU 4050 pieces of work in such a step, its peers 50") != std::string::npos);
    CHECK(why(timed).find(gap) == std::string::npos);
}

TEST_CASE("a slow GPU, a slow copy and a blocked synchronisation are told apart") {
    const std::pair<TimedFault::Kind, const char*> cases[] = {
        {TimedFault::kSlowKernels, "its GPU: kernels or copies between the collectives"},
        {TimedFault::kSlowCopy, "copies"},
        {TimedFault::kSlowSync, "blocked in a synchronisation"}};
    for (const auto& [kind, part] : cases) {
        Timed timed(with_fault(kind, 2, 15));
        REQUIRE(timed.findings.size() == 1);
        CHECK(timed.findings.front().ranks == std::vector<int>{2});
        CHECK(timed.since(2) == 15);
        CHECK(timed.rank(2).slow_part == part);
    }
}

TEST_CASE("a rank that is late for some steps in a row, again and again, is not late in one stretch alone") {
    std::vector<double> costs;
    for (size_t step = 0; step < 40; ++step) {
        costs.push_back(step / 5 % 2 == 1 ? 18e6 : 0);
    }
    analyzer::ShapeLimits limits;
    limits.least_ns = 1e6;
    limits.length_ns = 44e6;
    limits.seen_ns = 40 * limits.length_ns;
    const analyzer::LateShape shape = analyzer::shape_of(costs, limits);
    CHECK(shape.pattern == LatePattern::kIrregular);
    CHECK(shape.hits == 20);
    std::fill(costs.begin() + 20, costs.end(), 0);  // it was late twice
    CHECK(analyzer::shape_of(costs, limits).hits == 10);
    std::fill(costs.begin() + 10, costs.end(), 0);
    CHECK(analyzer::shape_of(costs, limits).pattern != LatePattern::kIrregular);
}

TEST_CASE("what comes near the largest lateness now and then is no single event") {
    analyzer::ShapeLimits limits;
    limits.least_ns = 1e9;
    limits.length_ns = 5e8;
    limits.seen_ns = 60e9;
    limits.trials = 8;
    std::vector<double> costs(40, 0.0);
    costs[17] = 5.5e9;
    CHECK(analyzer::shape_of(costs, limits).pattern == LatePattern::kOneOff);
    costs[5] = 2.5e9;
    CHECK(analyzer::shape_of(costs, limits).pattern == LatePattern::kNone);
}

TEST_CASE("periodic and single delays are called so") {
    TimedOptions options = with_fault(TimedFault::kSlowSpan, 3, 11, 0.8);
    options.fault.pattern = TimedFault::kPeriodic;
    options.fault.every = 5;
    Timed periodic(options);
    REQUIRE(periodic.findings.size() == 1);
    CHECK(periodic.rank(3).shape.pattern == LatePattern::kPeriodic);
    CHECK(periodic.rank(3).shape.every == 5);
    CHECK(periodic.since(3) == 11);
    options.fault.pattern = TimedFault::kOneOff;
    options.fault.share = 40;
    Timed once(options);
    REQUIRE(once.findings.size() == 1);
    CHECK(once.rank(3).shape.pattern == LatePattern::kOneOff);
    CHECK(once.since(3) == 11);
    CHECK(once.findings.front().summary.text().find("once") != std::string::npos);
}

TEST_CASE("who is late once by no more than calls lie apart at times is not called late") {
    std::vector<double> costs(20, 0);
    costs[7] = 4e9;
    analyzer::ShapeLimits limits;
    limits.least_ns = 1e6;
    limits.length_ns = 1e8;  // several calls follow each other at the end of a step
    limits.seen_ns = 8e10;
    CHECK(analyzer::shape_of(costs, limits).pattern == LatePattern::kOneOff);
    limits.long_ns = 6e9;  // and steps are as long as this
    CHECK(analyzer::shape_of(costs, limits).pattern == LatePattern::kNone);
}

TEST_CASE("who loses little more than others lose by chance is not called late") {
    for (const double others : {0.0, 0.5}) {
        CAPTURE(others);
        analyzer::Timing timing;
        timing.axes.emplace_back();
        for (int call = 0; call < 40; ++call) {
            timing.axes[0].keys.push_back(call);
            timing.axes[0].when_ns.push_back(1e9 * call);
        }
        timing.axes[0].length_ns = 1e9;
        for (int rank = 0; rank < 4; ++rank) {
            analyzer::RankTiming& timed = timing.ranks.emplace_back();
            timed.rank = rank;
            timed.costs.assign(40, 0.0);
            for (size_t call = 0; call < 40; ++call) {
                timed.costs[call] = rank == 3 ? 2e8 : rank == 0 && call % 8 == 3 ? 8 * 2e8 * others : 0;
                timed.lost_ns += timed.costs[call];
            }
        }
        analyzer::classify(timing);
        CHECK((timing.ranks[3].shape.pattern == LatePattern::kPersistent) == (others == 0));
    }
}

TEST_CASE("one or two steps that take far longer than every other are told, but not the first one") {
    analyzer::TimeAxis axis;
    for (int i = 0; i < 20; ++i) {
        axis.keys.push_back(100 + i);
        axis.when_ns.push_back(i * 1e8 + (i > 6 ? 30e9 : 0));
    }
    CHECK(analyzer::long_steps_text(axis) == "step 106 alone takes 30.1 s, no other more than 100 ms");
    axis.when_ns.back() += 10e9;
    CHECK(analyzer::long_steps_text(axis) == "steps 106 and 118 take 30.1 s and 10.1 s, no other more than 100 ms");
    axis.when_ns.back() -= 10e9;
    std::vector<double> three_long = axis.when_ns;
    for (int i = 0; i < 20; ++i) {
        three_long[static_cast<size_t>(i)] += (i > 9 ? 30e9 : 0) + (i > 12 ? 30e9 : 0);
    }
    CHECK(analyzer::long_steps_text({.steps = axis.steps, .keys = axis.keys, .when_ns = three_long}).empty());
    axis.keys.erase(axis.keys.begin(), axis.keys.begin() + 6);
    axis.when_ns.erase(axis.when_ns.begin(), axis.when_ns.begin() + 6);
    CHECK(analyzer::long_steps_text(axis).empty());
}

TEST_CASE("between bursts of calls lie the steps: who is late once by less than one is not called late") {
    constexpr int64_t kBegin = 1'750'000'000'000'000'000;
    for (const int64_t step_s : {40, 4}) {
        CAPTURE(step_s);
        analyzer::Run run;
        for (int rank = 0; rank < 3; ++rank) {
            analyzer::Process& process = run.processes.emplace_back();
            process.rank = rank;
            process.host = "node-0";
            process.texts.emplace_back();
            analyzer::Member& member = process.members.emplace_back();
            member.id = 77;
            member.size = 3;
            member.rank = member.global_rank = rank;
            for (int64_t call = 0; call < 15; ++call) {
                analyzer::Arrival& arrival = member.arrivals.emplace_back();
                arrival.sequence = static_cast<uint64_t>(call);
                arrival.kind = format::OpKind::kAllReduce;
                // Rank 0 is late in the second step, once.
                const int64_t late_s = rank == 0 && call >= 5 ? 5 : 0;
                arrival.entered_ns = kBegin + (call / 5 * step_s + late_s) * 1'000'000'000 + call * 20'000;
            }
        }
        analyzer::link(run);
        const analyzer::Timing timing = analyzer::analyze_timing(run);
        REQUIRE(timing.ranks.size() == 3);
        CHECK((timing.ranks[0].shape.pattern == LatePattern::kOneOff) == (step_s == 4));
    }
}

TEST_CASE("without steps the calls are counted, without the GPU's times the host's calls are compared") {
    TimedOptions options = with_fault(TimedFault::kSlowSpan, 6, 0);
    options.step_marks = false;
    Timed unmarked(options);
    REQUIRE(unmarked.findings.size() == 1);
    CHECK(unmarked.findings.front().ranks == std::vector<int>{6});
    // It is late in one of the four calls that a step makes on tp.
    CHECK(unmarked.rank(6).shape.pattern == LatePattern::kPeriodic);
    CHECK(unmarked.rank(6).shape.every == 4);
    CHECK(!unmarked.timing.axes[unmarked.rank(6).axis].steps);
    options = with_fault(TimedFault::kSlowSpan, 6, 25);
    options.method = GpuProgressMethod::kOff;
    Timed unseen(options);
    REQUIRE(unseen.findings.size() == 1);
    CHECK(unseen.findings.front().ranks == std::vector<int>{6});
    CHECK(unseen.findings.front().confidence == analyzer::Confidence::kLikely);
    CHECK(unseen.since(6) == 25);
}

TEST_CASE("where a GPU has not come to the newest calls, waits on GPUs are no part of the hosts' times") {
    constexpr size_t kNewest = 12;
    TimedOptions options = job_of(1);
    options.tp = 1;
    options.steps = 20;
    options.noise = false;
    options.step_marks = false;
    TimedJob job(options);
    analyzer::Run run = test::run_of(job);
    REQUIRE(test::findings_of(run).empty());
    for (analyzer::Process& process : run.processes) {
        for (analyzer::Member& member : process.members) {
            std::vector<analyzer::Arrival>& arrivals = member.arrivals;
            if (arrivals.size() < 2 * kNewest) {
                continue;
            }
            for (size_t i = arrivals.size() - kNewest; i < arrivals.size(); ++i) {
                // All hosts issue these calls at once, rank 2 two milliseconds behind the others: once late, not twelve
                // times. The GPUs are far behind, and wait longer in each than lies between the hosts' calls.
                const auto place = static_cast<int64_t>(i - (arrivals.size() - kNewest));
                arrivals[i].entered_ns = arrivals[arrivals.size() - kNewest - 1].entered_ns + 20'000'000 +
                                         place * 30'000 + (process.rank == 2 ? 2'000'000 : 0);
                arrivals[i].started_ns = process.rank == 0 ? 0 : arrivals[i].entered_ns + 1'000'000;
                arrivals[i].ended_ns = 0;
                arrivals[i].waited_ns = arrivals[i - 1].waited_ns + 1'500'000;
            }
        }
    }
    CHECK(test::findings_of(run).empty());
}

TEST_CASE("a slow link is its two hosts', not a rank's") {
    TimedOptions options = job_of(6);
    options.dp_hosts = 2;
    options.fault.kind = TimedFault::kSlowLink;
    options.fault.host = 2;
    options.fault.share = 6;
    Timed timed(options);
    REQUIRE(timed.findings.size() == 1);
    const Finding& finding = timed.findings.front();
    CHECK(finding.kind == FindingKind::kSlowCollective);
    CHECK(finding.ranks == std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15});
    CHECK(timed.slow_link().hosts == std::vector<std::string>{"node-2", "node-3"});
    CHECK(finding.summary.text().find("link between hosts node-2 and node-3") != std::string::npos);
}

TEST_CASE("a collective that gets slow everywhere is compared with its past") {
    TimedOptions options = with_fault(TimedFault::kSlowCollective, 0, 30, 6);
    Timed timed(options);
    REQUIRE(timed.findings.size() == 1);
    CHECK(timed.findings.front().kind == FindingKind::kSlowCollective);
    const analyzer::SlowCause slow = timed.slow_link();
    CHECK(slow.since_step == 30);
    REQUIRE(slow.calls);
    CHECK(slow.calls->communicators.size() == 2);
}

TEST_CASE("stragglers beside those that cost most are counted") {
    TimedOptions sixteen = with_fault(TimedFault::kSlowSpan, 3, 20);
    sixteen.hosts = 4;
    const Timed span(sixteen);
    analyzer::Timing timing = span.timing;
    const analyzer::RankTiming late = span.rank(3);
    for (size_t i = 0; i < timing.ranks.size() && i < 10; ++i) {
        timing.ranks[i].shape = late.shape;
        timing.ranks[i].shape.first = 4 * i;  // no two have one cause
        timing.ranks[i].shape.cost_ns -= static_cast<double>(i);
    }
    analyzer::Diagnosis diagnosis;
    const auto others = analyzer::add_timing_findings(span.run, timing, {}, diagnosis);
    std::erase_if(diagnosis.findings, [](const Finding& finding) { return finding.kind == FindingKind::kSlowStep; });
    CHECK(diagnosis.findings.size() == 8);
    REQUIRE(others.size() == 1);
    CHECK(others.front().ranks == std::vector<int>{8, 9});
    CHECK(others.front().summary.find("ranks 8-9") != std::string::npos);
}

TEST_CASE("bus bandwidth counts as nccl-tests do") {
    CHECK(analyzer::bus_bytes(format::OpKind::kAllReduce, 800, 8) == doctest::Approx(1400));
    CHECK(analyzer::bus_bytes(format::OpKind::kAllGather, 100, 8) == doctest::Approx(700));
    CHECK(analyzer::bus_bytes(format::OpKind::kReduceScatter, 100, 8) == doctest::Approx(700));
    CHECK(analyzer::bus_bytes(format::OpKind::kBroadcast, 100, 8) == doctest::Approx(100));
}

TEST_CASE("arrivals that damage put out of order, or twice, are left alone") {
    Timed timed(job_of(2));
    for (auto& process : timed.run.processes) {
        for (auto& member : process.members) {
            std::reverse(member.arrivals.begin(), member.arrivals.end());
        }
    }
    CHECK(analyzer::analyze_timing(timed.run).ranks.empty());
    for (auto& process : timed.run.processes) {
        for (auto& member : process.members) {
            const std::vector<analyzer::Arrival> once = member.arrivals;
            member.arrivals.insert(member.arrivals.end(), once.begin(), once.end());
        }
    }
    CHECK(analyzer::analyze_timing(timed.run).ranks.empty());
}

TEST_CASE("healthy noisy runs: nothing is found but pauses of all, where there are some") {
    const auto runs = static_cast<uint64_t>(test::rounds(60, 200));
    for (uint64_t seed = 1; seed <= runs; ++seed) {
        CAPTURE(seed);
        TimedOptions options = test::TimedDraw(seed).healthy();
        options.hiccups = seed % 2 == 0;
        Timed timed(options);
        CHECK(timed.findings.empty());
        CHECK((options.hiccups || timed.slow_steps.empty()));
        for (const Finding& finding : timed.slow_steps) {
            CHECK(finding.ranks.size() > 1);
            if (!options.hiccups) {
                MESSAGE(finding.summary.text());
            }
        }
    }
}

TEST_CASE("runs with one fault: its kind, ranks, pattern and first step") {
    int first_steps = 0;
    const int runs = test::rounds(60, 200);
    for (uint64_t seed = 1001; seed <= 1000 + static_cast<uint64_t>(runs); ++seed) {
        CAPTURE(seed);
        const TimedOptions options = test::TimedDraw(seed).faulty();
        const TimedFault& fault = options.fault;
        Timed timed(options);
        REQUIRE(timed.findings.size() == 1);
        const int from = options.first_step + fault.from_step;
        int64_t since = 0;
        if (fault.kind == TimedFault::kSlowLink || fault.kind == TimedFault::kSlowCollective) {
            CHECK(timed.findings.front().kind == FindingKind::kSlowCollective);
            since = timed.slow_link().since_step.value_or(options.first_step);
        } else {
            const LatePattern patterns[] = {LatePattern::kPersistent, LatePattern::kPeriodic, LatePattern::kOneOff};
            CHECK(timed.findings.front().kind == FindingKind::kStraggler);
            CHECK(timed.findings.front().ranks == std::vector<int>{fault.rank});
            CHECK(timed.rank(fault.rank).shape.pattern == patterns[fault.pattern]);
            since = timed.since(fault.rank);
        }
        // The first calls of a record have nothing before them to be measured from.
        const int latest = fault.from_step != 0 ? 1 : fault.pattern == TimedFault::kPeriodic ? fault.every : 2;
        first_steps += since >= from - 1 && since <= from + latest ? 1 : 0;
    }
    CHECK(first_steps >= runs * 97 / 100);
}
