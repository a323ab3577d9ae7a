// Plays a scenario and diagnoses it, without files.
#pragma once

#include <set>

#include "analyzer/finding.h"
#include "analyzer/load.h"
#include "analyzer/load_warnings.h"
#include "jobs.h"

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

inline Run run_of(Scenario& job, const std::set<int>& without = {}, const std::string& reason = "timeout") {
    Run run;
    run.id = "synth";
    for (int rank = 0; rank < job.size(); ++rank) {
        if (without.contains(rank)) {
            continue;
        }
        analyzer::OpenedSource opened;
        opened.source.label = "rank" + std::to_string(rank);
        opened.source.reason = reason;
        opened.image = *format::RingImage::open(job.ring(rank).bytes());
        opened.now_ticks = job.now_ticks(rank);
        opened.liveness = liveness_of(job, rank);
        run.processes.push_back(analyzer::decode_process(opened));
    }
    analyzer::link(run);
    analyzer::warn_of_gaps(run);
    return run;
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

inline Played play(Scenario& job, const std::set<int>& without = {}, const std::string& reason = "timeout",
                   const analyzer::DiagnoseOptions& options = {}) {
    job.play();
    Played played{run_of(job, without, reason), {}};
    played.diagnosis = analyzer::diagnose(played.run, options);
    return played;
}

inline std::vector<int> ranks(std::initializer_list<int> list) { return list; }

}  // namespace titan::test
