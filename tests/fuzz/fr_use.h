// What the analyzer does with a dump, once it is read.
#pragma once

#include "analyzer/finding.h"
#include "analyzer/flight_recorder.h"
#include "formats/fr/read.h"

namespace titan::fuzz {

inline void use_dump(const format::fr::Tree& tree, size_t file_bytes) {
    const auto dump = format::fr::to_dump(tree, file_bytes);
    if (!dump) {
        return;
    }
    analyzer::Run run;
    analyzer::GroupRanks groups;
    for (const int rank : {0, 1}) {
        run.processes.push_back(analyzer::process_of_dump(*dump, rank, 1'795'000'001'000'000'000, groups));
    }
    analyzer::complete_flight_recorder(run, groups);
    analyzer::link(run);
    analyzer::diagnose(run);
}

}  // namespace titan::fuzz
