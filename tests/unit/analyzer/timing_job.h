// A timed job, decoded and diagnosed in memory.
#pragma once

#include "decode_process.h"
#include "finding.h"
#include "link_run.h"
#include "timed_job.h"

namespace titan::test {

inline analyzer::Run run_of(synth::TimedJob& job) {
    analyzer::Run run;
    run.id = "timed";
    for (int rank = 0; rank < job.size(); ++rank) {
        analyzer::OpenedSource opened;
        opened.source.label = "rank" + std::to_string(rank);
        opened.source.reason = format::DumpReason::kSignal;
        opened.image = *format::RingImage::open(job.ring(rank).bytes());
        opened.now_ticks = job.now_ticks(rank);
        opened.liveness = analyzer::Liveness::kAlive;
        run.processes.push_back(analyzer::decode_process(opened));
    }
    analyzer::link(run);
    return run;
}

}  // namespace titan::test
