// What the analyzer does with a Flight Recorder dump, once its encoding is read.
#pragma once

#include <string>

#include "analysis.h"
#include "formats/fr/read.h"
#include "fr_process.h"
#include "fr_torchcomms.h"
#include "link_run.h"
#include "show.h"

namespace titan::fuzz {

inline std::string read_tree(const format::fr::Tree& tree, size_t file_bytes) {
    const auto dump = format::fr::to_dump(tree, file_bytes);
    if (!dump) {
        return dump.error().text();
    }
    analyzer::Run run;
    analyzer::GroupRanks groups;
    for (const int rank : {0, 1}) {
        run.processes.push_back(analyzer::process_of_dump(*dump, rank, 1'795'000'001'000'000'000, groups));
    }
    analyzer::complete_flight_recorder(run, groups);
    analyzer::link(run);
    analyzer::warn_of_what_it_hides(run);
    report(run);
    analyzer::show(run, {}, [](const std::string&) {});
    return "read: " + std::to_string(dump->entries.size()) + " calls";
}

}  // namespace titan::fuzz
