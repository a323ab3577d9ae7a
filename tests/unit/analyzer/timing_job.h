// A timed job, decoded and diagnosed in memory.
#pragma once

#include "decode_process.h"
#include "finding.h"
#include "link_run.h"
#include "timed_job.h"

namespace titan::test {

// A job on two hosts in which the kernels of that rank are slow.
inline synth::TimedOptions with_slow_kernels(int rank) {
    synth::TimedOptions options;
    options.hosts = 2;
    options.fault.kind = synth::TimedFault::kSlowKernels;
    options.fault.rank = rank;
    return options;
}

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
