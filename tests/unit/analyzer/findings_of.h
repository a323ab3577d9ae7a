// What the timing of a run alone finds.
#pragma once

#include <vector>

#include "finding.h"
#include "steps.h"
#include "timing.h"

namespace titan::test {

inline std::vector<analyzer::Finding> findings_of(const analyzer::Run& run) {
    analyzer::Diagnosis diagnosis;
    analyzer::Timing timing = analyzer::analyze_timing(run);
    analyzer::add_timing_findings(run, timing, {}, diagnosis);
    return diagnosis.findings;
}

}  // namespace titan::test
