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

// --- The directories that a file lies in, if they are <run>/<attempt>; else empty.

struct RunDirectory {
    explicit RunDirectory(const std::string& path);
    std::string run;
    std::string attempt;
};

// --- Names of the verdict beside the dumps of an attempt: verdict.json and verdict.txt; one that a later one replaced,
// "verdict.1764170000000000000.json"; and what was told to whom, so that nobody is told twice:
// "verdict.COMMAND.told" for a command by its hash, "verdict.1764170000000000000.line.told" for the job's log.

inline constexpr const char* kVerdictJson = "verdict.json";

inline constexpr const char* kVerdictText = "verdict.txt";

constexpr bool is_verdict_name(std::string_view name) {
    return name.starts_with("verdict.") &&
           (name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".told"));
}

// --- Recognizes a file or a member of an archive by its first bytes.

inline constexpr size_t kFirstBytes = 4096;  // tell what it is

enum class Content { kOther, kFlightRecorder, kDump, kDigest };

// A file with one of our names counts as ours, so that a damaged one is reported.
Content content_of(std::span<const std::byte> first_bytes, std::string_view name);

// PyTorch's: a pickle, or JSON with the keys of such a dump.
bool is_flight_recorder(const std::string& path);

// Whether the file is from torchtitan's structured logger (structured_log.h).
bool is_structured_log(const std::string& path);

// An archive among whose first files is a record.
bool holds_records(const std::string& path);

}  // namespace titan::analyzer
