// Options that say what to load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace titan::analyzer {

struct Start;  // starts.h

struct LoadOptions {
    std::vector<std::string> paths;
    std::string run;                            // empty: the newest
    std::optional<int32_t> attempt;             // empty: the newest of the run
    int32_t start = 0;                          // of those in its directory, from 1 on; 0: the newest
    std::shared_ptr<const Start> told_start;    // which it is, if the caller has told starts apart and names its paths
    std::string role;                           // of processes whose ranks are numbered alike; empty: see choose_role.h
    std::vector<std::string> ring_directories;  // on this node, for ranks without a dump; empty: do not look
    bool witnesses_alone = false;  // no record at all will do where witnesses speak: a run without processes
    // Journals are read where there is nothing else. With this also beside dumps and rings, and logs
    // (structured_log.h) where there is not even a journal.
    bool with_journals = false;
    // For a caller that reads records one by one (records.h): processes come without what they did, unless the choice
    // of files depends on it. Files, ranks, communicators and labels are the same.
    bool records_alone = false;
    unsigned threads = 0;   // 0: one per core
    std::string only_host;  // records of this host alone; empty: of all
    std::function<void(size_t done, size_t total)> progress;
};

}  // namespace titan::analyzer
