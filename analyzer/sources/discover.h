// Finds files, and the run that each belongs to as far as its directories tell.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "formats/container/journal_reader.h"
#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

struct Candidate {
    std::string path;
    std::string directory;
    std::string stem;  // rank00003
    uint64_t number = 0;
    int64_t modified_ns = 0;
    uint64_t size_bytes = 0;
    bool is_ring = false;
    bool is_flight_recorder = false;
    bool is_archive = false;
    bool is_digest = false;
};

// Files of one run and attempt, as far as directories tell.
struct CandidateGroup {
    std::string run;  // empty where the directory is no <run>/<attempt>
    std::string attempt;
    int64_t newest_ns = 0;
    std::vector<Candidate> files;
    std::vector<std::string> journals;  // paths (journals.h)
    // Where several starts of the job are there (load/starts.h) and one is chosen: which, and its processes.
    int32_t start = 0;
    int32_t starts = 0;
    std::set<format::JournalProcess> processes{};
};

struct Discovery {
    std::vector<CandidateGroup> groups;  // newest first
    std::vector<std::string> logs;       // paths of what torchtitan's structured logger wrote; they make no group
    std::vector<std::string> witnesses;  // paths of what may be one (witness.h)
    std::vector<Warning> warnings;
    size_t other_files = 0;  // in the directories, which are neither records nor logs by their names
    std::string first_other;
};

// Error: a path that does not exist.
Result<Discovery> discover(const std::vector<std::string>& paths);

}  // namespace titan::analyzer
