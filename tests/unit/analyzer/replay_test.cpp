// Why a job is slow, and what it would be without that: timed jobs with one cause, against the same job without it.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "correlation.h"
#include "diagnose.h"
#include "replay.h"
#include "robust.h"
#include "same_work.h"
#include "slow_causes.h"
#include "steps.h"
#include "timed_files.h"
#include "timing.h"
#include "timing_draw.h"

namespace {

using namespace titan;
using analyzer::CauseClass;
using analyzer::SlowCause;
using analyzer::SlowCauses;
using synth::TimedFault;
using synth::TimedOptions;

struct Slow {
    explicit Slow(const TimedOptions& options) : job(options), run(test::run_of(job)) { look(); }
    void look() {
        timing = analyzer::analyze_timing(run);
        causes = analyzer::slow_causes(run, timing);
    }

    synth::TimedJob job;
    analyzer::Run run;
    analyzer::Timing timing;
    SlowCauses causes;
};

TimedOptions quiet_job(uint64_t seed) {
    TimedOptions options;
    options.seed = seed;
    options.hosts = 2 + static_cast<int>(seed % 3);
    options.clock_offset_ms = 40;
    options.clock_drift_ppm = 10;
    options.noise = false;
    options.checkpoint_every = 0;
    return options;
}

TimedOptions with_fault(TimedOptions options, TimedFault::Kind kind, int rank, int from_step) {
    options.fault.kind = kind;
    options.fault.rank = rank;
    options.fault.from_step = from_step;
    options.fault.share = 0.3;
    return options;
}

bool one_says(const std::vector<std::string>& evidence, std::string_view words) {
    return std::any_of(evidence.begin(), evidence.end(),
                       [words](const std::string& one) { return one.starts_with(words); });
}

double recorded_step_ns(const TimedOptions& options) { return Slow(options).causes.step_ns; }

}  // namespace

TEST_CASE("replay: what is played as recorded takes as long as recorded") {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        TimedOptions options = test::TimedDraw(seed).healthy();
        options.step_marks = true;
        options.clock_jump_ms = 0;
        options.method = format::GpuProgressMethod::kTiming;
        const Slow slow(options);
        const analyzer::StepGraph graph = analyzer::step_graph(slow.run, slow.timing.clocks);
        CAPTURE(seed);
        REQUIRE(graph.why_none.empty());
        CHECK(graph.forced == 0);
        CHECK(replay(graph, recorded_durations(graph)) == doctest::Approx(graph.step_ns).epsilon(0.02));
    }
}

TEST_CASE("replay: without the slow rank the step takes what it takes in the job that has none") {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        const TimedOptions even = quiet_job(seed);
        const double even_ns = recorded_step_ns(even);
        const int rank = static_cast<int>(seed) % 8;
        for (const auto& [kind, of_class] : {std::pair(TimedFault::kSlowSpan, CauseClass::kDataLoading),
                                             std::pair(TimedFault::kSlowKernels, CauseClass::kSlowRankGpu)}) {
            const int from_step = seed % 2 == 0 ? 0 : 15;
            const Slow slow(with_fault(even, kind, rank, from_step));
            CAPTURE(seed);
            CAPTURE(rank);
            REQUIRE(slow.causes.causes.size() == 1);
            const SlowCause& cause = slow.causes.causes.front();
            CHECK(cause.of_class == of_class);
            CHECK(cause.ranks == std::vector<int>{rank});
            CHECK(cause.without_ns() == doctest::Approx(even_ns).epsilon(from_step == 0 ? 0.05 : 0.01));
            CHECK(cause.since_step.has_value() == (from_step != 0));
            CHECK(cause.since_step.value_or(15) == 15);
        }
    }
}

TEST_CASE("replay: the few steps of a rank that are spared tell how long it works") {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        TimedOptions options = quiet_job(seed);
        const double even_ns = recorded_step_ns(options);
        options.fault.pattern = TimedFault::kButOne;
        options.fault.every = 4;
        const Slow slow(with_fault(options, TimedFault::kSlowSpan, TimedFault::kEveryRank, 0));
        CAPTURE(seed);
        REQUIRE(!slow.causes.causes.empty());
        const SlowCause& cause = slow.causes.causes.front();
        CHECK(cause.of_class == CauseClass::kDataLoading);
        CHECK(cause.without_ns() == doctest::Approx(even_ns).epsilon(0.01));
    }
}

TEST_CASE("replay: pauses at one place of the step are waits, and no collector's") {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        TimedOptions options = quiet_job(seed);
        options.fault.pattern = TimedFault::kPeriodic;
        options.fault.every = 7;
        for (const auto& [span, of_class] :
             {std::pair("forward", CauseClass::kDataLoading), std::pair("", CauseClass::kGarbageCollection)}) {
            options.fault.span = span;
            TimedOptions paused = with_fault(options, TimedFault::kSlowSpan, TimedFault::kEveryRank, 0);
            paused.fault.share = 1;  // longer than hosts are ahead of their GPUs
            const Slow slow(paused);
            CAPTURE(seed);
            CAPTURE(std::string(span));
            REQUIRE(!slow.causes.causes.empty());
            const SlowCause& cause = slow.causes.causes.front();
            CHECK(cause.of_class == of_class);
            CHECK(one_says(cause.evidence, "all at the same place of a step") ==
                  (of_class == CauseClass::kDataLoading));
        }
    }
}

// As a tracer leaves them that is to observe one step of three.
void forget_two_steps_of_three(analyzer::Run& run) {
    for (analyzer::Process& process : run.processes) {
        process.gpu_sample = 3;
        const size_t oldest = process.history.size() - process.call_times.size();
        size_t at = 0;
        for (size_t i = 0; i < process.call_times.size(); ++i) {
            while (at + 1 < process.steps.size() && process.steps[at + 1].first_call <= oldest + i) {
                ++at;
            }
            if (process.steps[at].step % 3 != 1) {
                process.call_times[i].started = process.call_times[i].ended = format::kNoIndex;
            }
        }
    }
}

TEST_CASE("replay: whole steps that are watched tell as much as all steps") {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        const TimedOptions even = quiet_job(seed);
        Slow slow(with_fault(even, TimedFault::kSlowKernels, 5, 0));
        forget_two_steps_of_three(slow.run);
        slow.look();
        CAPTURE(seed);
        REQUIRE(slow.causes.causes.size() == 1);
        const SlowCause& cause = slow.causes.causes.front();
        CHECK(cause.of_class == CauseClass::kSlowRankGpu);
        CHECK(cause.ranks == std::vector<int>{5});
        CHECK(cause.without_ns() == doctest::Approx(recorded_step_ns(even)).epsilon(0.05));
        REQUIRE(slow.causes.missing.size() == 1);
        CHECK(slow.causes.missing.front().starts_with("the GPUs were watched in "));
        Slow nothing(even);
        forget_two_steps_of_three(nothing.run);
        nothing.look();
        CHECK(nothing.causes.causes.empty());
    }
}

TEST_CASE("replay: of many parts of a step some go together in few steps, but not so well as by a cause") {
    constexpr size_t kParts = 48;
    std::minstd_rand random(7);
    std::normal_distribution<double> normal;
    for (const size_t steps : {size_t{12}, size_t{17}, size_t{50}}) {
        std::vector<std::vector<double>> parts(kParts, std::vector<double>(steps));
        for (int draw = 0; draw < 20; ++draw) {
            for (std::vector<double>& part : parts) {
                std::generate(part.begin(), part.end(), [&] { return normal(random); });
            }
            std::vector<double> best(kParts, 0);
            for (size_t i = 0; i < kParts; ++i) {
                for (size_t j = 0; j < kParts; ++j) {
                    best[i] = i == j ? best[i] : std::max(best[i], analyzer::correlation(parts[i], parts[j]));
                }
            }
            CAPTURE(steps);
            CHECK(analyzer::median_of(best) < analyzer::least_correlation(steps));
        }
    }
    const std::vector<double> length{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    std::vector<double> twice = length;
    std::transform(length.begin(), length.end(), twice.begin(), [](double ns) { return 2 * ns + 1; });
    CHECK(analyzer::correlation(length, twice) == doctest::Approx(1));
    CHECK(analyzer::correlation(length, twice) > analyzer::least_correlation(length.size()));
    CHECK(analyzer::least_correlation(3) >= 1);
}

TEST_CASE("replay: what becomes slower at once on all ranks is told so") {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        const TimedOptions even = quiet_job(seed);
        const Slow slow(with_fault(even, TimedFault::kSlowKernels, TimedFault::kEveryRank, 30));
        CAPTURE(seed);
        REQUIRE(slow.causes.causes.size() == 1);
        const SlowCause& cause = slow.causes.causes.front();
        CHECK(cause.of_class == CauseClass::kEveryone);
        CHECK(cause.since_step == 30);
        CHECK(cause.without_ns() == doctest::Approx(recorded_step_ns(even)).epsilon(0.05));
    }
}

TEST_CASE("replay: an even job has no cause") {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        const Slow slow(quiet_job(seed));
        CAPTURE(seed);
        CHECK(slow.causes.why_none.empty());
        CHECK(slow.causes.causes.empty());
    }
}

TEST_CASE("replay: steps that nobody marks are cut where the calls repeat") {
    TimedOptions options = with_fault(quiet_job(3), TimedFault::kSlowSpan, 2, 0);
    const double marked_ns = recorded_step_ns(options);
    options.step_marks = false;
    const Slow slow(options);
    REQUIRE(slow.causes.why_none.empty());
    CHECK(slow.causes.by_period);
    CHECK(slow.causes.step_ns == doctest::Approx(marked_ns).epsilon(0.05));
    REQUIRE(slow.causes.causes.size() == 1);
    CHECK(slow.causes.causes.front().ranks == std::vector<int>{2});
}

TEST_CASE("replay: where NCCL's calls take much of a step, it is said that they may all be slow") {
    TimedOptions options = quiet_job(4);
    const Slow little(options);
    CHECK(unseen_in_calls_text(little.causes).empty());
    options.step_ms = 6;  // with the same calls
    const Slow much(options);
    CHECK(much.causes.calls_share > 0.3);
    CHECK(much.causes.calls_share * much.causes.step_ns ==
          doctest::Approx(little.causes.calls_share * little.causes.step_ns).epsilon(0.1));
    const std::string text = unseen_in_calls_text(much.causes);
    CHECK(text.find("% of each step is spent in NCCL's calls: were all of them slow") != std::string::npos);
    CHECK(diagnose(much.run).slow == text);
}

TEST_CASE("replay: what cannot be played is said, and nothing is told") {
    test::FileOptions files;
    files.slow_rank = 2;
    const analyzer::Run of_files = test::FileJob(files).run();
    const SlowCauses none = analyzer::slow_causes(of_files, analyzer::analyze_timing(of_files));
    CHECK(none.causes.empty());
    CHECK(none.why_none.find("not when they ran") != std::string::npos);

    Slow part(with_fault(quiet_job(2), TimedFault::kSlowSpan, 2, 0));
    part.run.missing_ranks = {5};
    part.run.processes.erase(part.run.processes.begin() + 5);
    for (analyzer::Process& process : part.run.processes) {
        for (analyzer::Member& member : process.members) {
            member.communicator = format::kNoIndex;
        }
    }
    part.run.communicators.clear();
    analyzer::link(part.run);
    part.look();
    REQUIRE(part.causes.missing.size() == 1);
    CHECK(part.causes.missing.front().find("rank 5 has no record") != std::string::npos);

    TimedOptions off = with_fault(quiet_job(2), TimedFault::kSlowSpan, 2, 0);
    off.method = format::GpuProgressMethod::kOff;
    const Slow unwatched(off);
    CHECK(std::any_of(unwatched.causes.missing.begin(), unwatched.causes.missing.end(),
                      [](const std::string& one) { return one.starts_with("GPU times are not recorded"); }));
    REQUIRE(!unwatched.causes.causes.empty());
    CHECK(analyzer::counterfactual_text(unwatched.causes.causes.front()).ends_with(", unless the GPUs need longer"));
    TimedOptions short_one = quiet_job(1);
    short_one.steps = 3;
    CHECK(!Slow(short_one).causes.why_none.empty());
}

TEST_CASE("replay: what costs a step more than the limit is a finding, what costs less one line") {
    TimedOptions paused = quiet_job(2);
    paused.fault.pattern = TimedFault::kPeriodic;
    paused.fault.every = 7;
    paused.fault.span = "";
    paused = with_fault(paused, TimedFault::kSlowSpan, TimedFault::kEveryRank, 0);
    paused.fault.share = 1;
    const Slow slow(paused);
    REQUIRE(!slow.causes.causes.empty());
    const SlowCause& cause = slow.causes.causes.front();
    REQUIRE(cause.share() > 0.05);
    const analyzer::Diagnosis told = analyzer::diagnose(slow.run);
    REQUIRE(!told.findings.empty());
    const analyzer::Finding& finding = told.findings.front();
    CHECK(finding.kind == analyzer::FindingKind::kSlowStep);
    CHECK(finding.ranks == cause.ranks);
    CHECK(finding.summary.text().find(counterfactual_text(cause)) != std::string::npos);
    CHECK(finding.remedy() == next_step(cause));
    CHECK(told.slow.empty());
    CHECK(told.step_ns == slow.causes.step_ns);

    // Also where the dump came while ranks waited, and nothing is overdue yet.
    analyzer::Diagnosis in_a_wait;
    in_a_wait.waiting.emplace_back();
    analyzer::Timing timing = slow.timing;
    analyzer::add_timing_findings(slow.run, timing, {}, in_a_wait);
    REQUIRE(in_a_wait.findings.size() == 1);
    CHECK(in_a_wait.findings.front().summary.text() == finding.summary.text());

    const analyzer::Diagnosis below = analyzer::diagnose(slow.run, {.slow_share = cause.share() + 0.01});
    CHECK(outcome_of(below) == analyzer::Outcome::kNothingWrong);
    CHECK(below.slow.find(what_text(cause)) != std::string::npos);
    CHECK(analyzer::diagnose(Slow(quiet_job(2)).run).slow.empty());

    // A rank that is late is told as that, once, and with what to do about its cause.
    const analyzer::Diagnosis late =
        analyzer::diagnose(Slow(with_fault(quiet_job(2), TimedFault::kSlowKernels, 5, 0)).run);
    REQUIRE(late.findings.size() == 1);
    CHECK(late.findings.front().kind == analyzer::FindingKind::kStraggler);
    CHECK(late.findings.front().remedy().find("nvidia-smi") != std::string::npos);
}

TEST_CASE("replay: steps in a row in which the GPUs were watched need no times of others") {
    Slow slow(with_fault(quiet_job(2), TimedFault::kSlowKernels, 5, 0));
    const double share = slow.causes.causes.at(0).share();
    const size_t steps = slow.causes.steps;
    for (analyzer::Process& process : slow.run.processes) {
        process.gpu_sample = 8;  // of the first third of its calls
        const size_t some = process.call_times.size() / 3;
        for (size_t i = 0; i < some; ++i) {
            if (i % process.gpu_sample != 0) {
                process.call_times[i].started = process.call_times[i].ended = format::kNoIndex;
            }
        }
    }
    slow.look();
    REQUIRE(slow.causes.causes.size() == 1);
    CHECK(slow.causes.causes.front().ranks == std::vector<int>{5});
    CHECK(slow.causes.causes.front().share() == doctest::Approx(share).epsilon(0.02));
    CHECK(slow.causes.steps < steps);
    CHECK(one_says(slow.causes.missing, "the GPUs were watched in steps "));
}

TEST_CASE("replay: marked steps and periods of calls are not mixed") {
    Slow slow(quiet_job(3));
    const double marked_ns = slow.causes.step_ns;
    for (analyzer::Process& process : slow.run.processes) {
        if (process.rank >= 6) {  // four steps are one period
            process.steps_by_period = true;
            for (size_t i = 0; i < process.steps.size(); ++i) {
                process.steps[i].end_ns += 3 * (process.steps[i].end_ns - process.steps[i].begin_ns);
            }
        }
    }
    slow.look();
    REQUIRE(slow.causes.why_none.empty());
    CHECK(!slow.causes.by_period);
    CHECK(slow.causes.step_ns == doctest::Approx(marked_ns).epsilon(0.02));
    REQUIRE(!slow.causes.missing.empty());
    CHECK(slow.causes.missing.front().starts_with("ranks 6-7 mark no steps, others do"));
}

TEST_CASE("replay: a host that runs ahead of its GPU makes the step no shorter") {
    Slow slow(quiet_job(4));
    const double step_ns = slow.causes.step_ns;
    const size_t steps = slow.causes.steps;
    constexpr size_t kAhead = 9;
    for (analyzer::Process& process : slow.run.processes) {
        // The marks of the last steps come at once, and the GPU has not come to their calls.
        const size_t first = process.steps.size() - kAhead;
        const int64_t now_ns = process.steps[first].begin_ns;
        for (size_t i = first; i < process.steps.size(); ++i) {
            process.steps[i].begin_ns = now_ns + static_cast<int64_t>(i - first) * 1'000'000;
            process.steps[i].end_ns = process.steps[i].begin_ns + 1'000'000;
        }
        const size_t oldest = process.history.size() - process.call_times.size();
        for (size_t i = process.steps[first].first_call - oldest; i < process.call_times.size(); ++i) {
            process.call_times[i].since_before =
                i == process.steps[first].first_call - oldest ? process.call_times[i].since_before : 1;
            process.call_times[i].started = process.call_times[i].ended = format::kNoIndex;
        }
    }
    slow.look();
    REQUIRE(slow.causes.why_none.empty());
    CHECK(slow.causes.steps <= steps - kAhead + 1);
    CHECK(slow.causes.step_ns == doctest::Approx(step_ns).epsilon(0.02));
}

TEST_CASE("replay: what lies behind the calls of the last whole step is part of it, also where hosts run ahead") {
    for (const bool next_call_ended : {true, false}) {
        CAPTURE(next_call_ended);
        Slow slow(quiet_job(4));
        const double step_ns = slow.causes.step_ns;
        const auto late_ns = static_cast<int64_t>(5 * step_ns);
        for (analyzer::Process& process : slow.run.processes) {
            // A checkpoint before the newest step, of which the GPU has ended one call, or none.
            const int64_t saved_ns = process.steps.back().begin_ns + late_ns;
            for (analyzer::StepProfile& step : process.steps) {
                step.begin_ns -= static_cast<int64_t>(1.5 * step_ns);
                step.end_ns -= static_cast<int64_t>(1.5 * step_ns);
            }
            process.steps[process.steps.size() - 2].end_ns = saved_ns;
            process.steps.back().begin_ns = saved_ns;
            process.steps.back().end_ns += 2 * late_ns;
            const size_t oldest = process.history.size() - process.call_times.size();
            const size_t first = process.steps.back().first_call - oldest;
            process.call_times[first].since_before += static_cast<uint32_t>(late_ns / analyzer::CallTimes::kUnitNs);
            for (size_t i = first + (next_call_ended ? 1 : 0); i < process.call_times.size(); ++i) {
                process.call_times[i].started = process.call_times[i].ended = format::kNoIndex;
            }
        }
        slow.look();
        REQUIRE(slow.causes.why_none.empty());
        const double mean_ns = step_ns + static_cast<double>(late_ns) / static_cast<double>(slow.causes.steps);
        CHECK(slow.causes.step_ns == doctest::Approx(mean_ns).epsilon(0.02));
    }
}

TEST_CASE("replay: the first step does not wait for the calls before it") {
    Slow slow(quiet_job(4));
    const int64_t step_ns = static_cast<int64_t>(slow.causes.step_ns);
    // All wait in the last call before the second step, 30 steps long, for the last rank, which compiles. Their hosts
    // have made the first call of that step by then. The first step is not on record.
    const int64_t late_ns = 30 * step_ns;
    const auto late = static_cast<uint32_t>(late_ns / analyzer::CallTimes::kUnitNs);
    for (analyzer::Process& process : slow.run.processes) {
        process.steps.erase(process.steps.begin());
        const bool compiles = &process == &slow.run.processes.back();
        const size_t oldest = process.history.size() - process.call_times.size();
        const size_t first = process.steps.front().first_call - oldest;
        for (const size_t call : {first - 1, first}) {
            if (!compiles) {
                process.call_times[call].ended += late;
            }
        }
        process.call_times[first].started += compiles ? 0 : late;
        process.call_times[compiles ? first - 1 : first + 1].since_before += late;
        for (analyzer::StepProfile& step : process.steps) {
            step.begin_ns += compiles || &step != &process.steps.front() ? late_ns : 0;
            step.end_ns += late_ns;
        }
    }
    slow.look();
    REQUIRE(slow.causes.why_none.empty());
    const analyzer::StepGraph graph = analyzer::step_graph(slow.run, slow.timing.clocks);
    for (const analyzer::StepNode& node : graph.nodes) {
        CHECK(static_cast<int64_t>(node.own_ns) < step_ns);
    }
    CHECK(slow.causes.causes.empty());
}

TEST_CASE("replay: ranks of an all-to-all do the same work, stages of a pipeline do not") {
    CHECK(analyzer::is_all_to_all(4, 3, 3));
    CHECK(analyzer::is_all_to_all(8, 4, 7));
    CHECK(!analyzer::is_all_to_all(8, 2, 2));  // a stage and its neighbours
    CHECK(!analyzer::is_all_to_all(4, 2, 2));
    CHECK(!analyzer::is_all_to_all(4, 3, 0));  // a scatter
    CHECK(!analyzer::is_all_to_all(2, 1, 1));  // as two stages do
    const auto roles = [](int reach) {
        analyzer::Run run;
        for (int rank = 0; rank < 4; ++rank) {
            analyzer::Process process;
            process.texts.emplace_back();
            analyzer::Member member;
            member.rank = rank;
            member.size = 4;
            for (int peer = 0; peer < 4; ++peer) {
                if (peer != rank && std::abs(peer - rank) <= reach) {
                    member.sent.emplace_back(peer, 1);
                    member.received.emplace_back(peer, 1);
                }
            }
            process.members.push_back(std::move(member));
            run.processes.push_back(std::move(process));
        }
        return analyzer::roles_of(run);
    };
    CHECK(roles(3) == std::vector<uint32_t>{0, 0, 0, 0});
    CHECK(roles(1) == std::vector<uint32_t>{0, 1, 1, 2});
}
