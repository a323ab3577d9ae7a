// Plays a scenario and diagnoses it, without files.
#pragma once

#include <functional>
#include <set>

#include <doctest/doctest.h>

#include "condense.h"
#include "decode_process.h"
#include "diagnose.h"
#include "digests.h"
#include "finding.h"
#include "jobs.h"
#include "link_run.h"
#include "report.h"

namespace titan::test {

using analyzer::Confidence;
using analyzer::Diagnosis;
using analyzer::Finding;
using analyzer::FindingKind;
using analyzer::Run;
using synth::Program;
using synth::Scenario;
using synth::ScenarioOptions;

inline analyzer::Liveness liveness_of(Scenario& job, int rank) {
    if (!job.is_dead(rank)) {
        return analyzer::Liveness::kAlive;
    }
    switch (job.ring(rank).header().state) {
        case format::ProcessState::kExited: return analyzer::Liveness::kExited;
        case format::ProcessState::kCrashed: return analyzer::Liveness::kCrashed;
        default: return analyzer::Liveness::kKilled;
    }
}

// What the ranks left, before anybody compared it.
inline Run records_of(Scenario& job, const std::set<int>& without = {}, const std::string& reason = "timeout") {
    Run run;
    run.id = "synth";
    for (int rank = 0; rank < job.size(); ++rank) {
        if (without.contains(rank)) {
            continue;
        }
        analyzer::OpenedSource opened;
        opened.source.label = "rank" + std::to_string(rank);
        opened.source.reason = analyzer::reason_named(reason);
        opened.image = *format::RingImage::open(job.ring(rank).bytes());
        opened.now_ticks = opened.seen_ticks = job.now_ticks(rank);
        opened.liveness = liveness_of(job, rank);
        run.processes.push_back(analyzer::decode_process(opened));
    }
    return run;
}

inline Run linked(Run run) {
    analyzer::link(run);
    analyzer::warn_of_gaps(run);
    return run;
}

inline Run run_of(Scenario& job, const std::set<int>& without = {}, const std::string& reason = "timeout") {
    return linked(records_of(job, without, reason));
}

// The report on a run of which little more than the unfinished calls is left in full.
inline std::string condensed_report(Run run, const analyzer::CondenseLimits& limits,
                                    const analyzer::DiagnoseOptions& options) {
    for (analyzer::Process& process : run.processes) {
        analyzer::condense(process, limits);
    }
    return analyzer::json_report(run, analyzer::diagnose(run, options));
}

// A training of twelve steps in which one rank sleeps in program code before the ninth call of all.
inline Scenario job_with_a_sleeper(int ranks, int culprit, ScenarioOptions options = {}) {
    Scenario job(ranks, std::move(options));
    synth::write_training(job, 12);
    Program sleep;
    sleep.sleep();
    job.program(culprit).insert_before("world", 9, sleep);
    job.play();
    return job;
}

struct Played {
    Run run;
    Diagnosis diagnosis;
    const Finding& head() const { return diagnosis.findings.front(); }
    std::string communicator() const {
        return head().communicator == format::kNoIndex ? "" : run.communicators[head().communicator].name;
    }
    bool healthy() const { return diagnosis.findings.empty(); }
};

inline constexpr analyzer::CondenseLimits kTightLimits{.newest = 2,
                                                       .newest_of_member = 1,
                                                       .newest_of_pair = 1,
                                                       .newest_of_stream = 1,
                                                       .unfinished = 64,
                                                       .unwatched_of_member = 64,
                                                       .captured = 64,
                                                       .failed = 1,
                                                       .following = 2};

// The report on the same run after its way through digests.
inline std::string digested_report(const Run& run, const analyzer::CondenseLimits& limits,
                                   const analyzer::DiagnoseOptions& options) {
    Run read;
    read.id = run.id;
    for (analyzer::Process process : run.processes) {
        analyzer::condense(process, limits);
        auto unpacked = analyzer::unpack_process(analyzer::pack_process(process));
        REQUIRE(unpacked);
        read.processes.push_back(std::move(*unpacked));
    }
    analyzer::link(read);
    analyzer::warn_of_gaps(read);
    return analyzer::json_report(read, analyzer::diagnose(read, options));
}

// A run that was changed by hand.
inline void judge(Played& played) {
    analyzer::link(played.run);
    played.diagnosis = analyzer::diagnose(played.run);
}

// Where nearly all calls are left out a wait may seem to begin some milliseconds earlier or later. Its words, "20.0 s",
// are the same.
inline std::string without_durations(std::string report) {
    const std::string key = "\"duration_ns\": ";
    for (size_t at = report.find(key); at != std::string::npos; at = report.find(key, at + 1)) {
        report.erase(at + key.size(), report.find_first_not_of("0123456789", at + key.size()) - at - key.size());
    }
    return report;
}

// Condensing and digesting change no word of the report. `records`: the processes, not linked.
inline void check_condensed(const Played& played, const std::function<Run()>& records,
                            const analyzer::DiagnoseOptions& options) {
    const std::string whole = analyzer::json_report(played.run, played.diagnosis);
    CHECK(condensed_report(linked(records()), {}, options) == whole);
    CHECK(digested_report(records(), {}, options) == whole);
    const std::string words = without_durations(whole);
    CHECK(without_durations(condensed_report(linked(records()), kTightLimits, options)) == words);
    CHECK(without_durations(digested_report(records(), kTightLimits, options)) == words);
}

inline Played judged(const std::function<Run()>& records, const analyzer::DiagnoseOptions& options = {}) {
    Played played{linked(records()), {}};
    played.diagnosis = analyzer::diagnose(played.run, options);
    check_condensed(played, records, options);
    return played;
}

inline Played play(Scenario& job, const std::set<int>& without = {}, const std::string& reason = "timeout",
                   const analyzer::DiagnoseOptions& options = {}) {
    job.play();
    return judged([&] { return records_of(job, without, reason); }, options);
}

inline std::vector<int> ranks(std::initializer_list<int> list) { return list; }

}  // namespace titan::test
