// State of one loader thread, reused from record to record: files of their own, digests, and members of archives.
#pragma once

#include <string>
#include <vector>

#include "digests.h"
#include "fr_file.h"
#include "fr_groups.h"
#include "host/image_buffer.h"
#include "open_source.h"
#include "record_archive.h"

namespace titan::analyzer {

class Symbols;

struct LoadOutcome {
    std::vector<Process> processes;
    std::vector<std::string> problems;
    bool shows_aftermath = false;  // the process aborted communicators, and no dump shows it before that
};

struct Loader {
    Symbols& symbols;         // shared
    GroupRanks& groups;       // shared
    std::string only_host{};  // empty: all
    format::DumpExtent extent = format::DumpExtent::kAll;
    ImageBuffer memory{};
    FlightRecorderScratch scratch{};
};

// Condensed at once: only one process per worker is ever there in full.
void take_opened(const OpenedSource& opened, Loader& with, LoadOutcome& outcome);
void take_digest(Digest digest, Loader& with, LoadOutcome& outcome);
// All records in an archive, ours and PyTorch's; unreadable ones become problems of the outcome.
void load_archive(const std::string& path, Archive& archive, Loader& with, LoadOutcome& outcome);

}  // namespace titan::analyzer
