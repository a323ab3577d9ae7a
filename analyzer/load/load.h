// From paths on the command line to one Run. Files are found, grouped by run and attempt, read in parallel, and put
// together. What cannot be read becomes a warning; only "nothing usable at all" is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/image_buffer.h"
#include "formats/result.h"
#include "formats/ring_image.h"
#include "run.h"

namespace titan::analyzer {

class Symbols;

struct LoadOptions {
    std::vector<std::string> paths;
    std::string run;                            // empty: the newest
    std::optional<int32_t> attempt;             // empty: the newest of the run
    std::vector<std::string> ring_directories;  // of this node, for ranks without a dump; empty: do not look
    bool witnesses_alone = false;  // no record at all will do where witnesses speak: a run without processes
    unsigned threads = 0;          // 0: one per core
    std::string only_host;         // records of this host alone; empty: of all
    std::function<void(size_t done, size_t total)> progress;
};

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
};

struct Discovery {
    std::vector<CandidateGroup> groups;  // newest first
    std::vector<std::string> witnesses;  // paths of what may be one (witness.h)
    std::vector<Warning> warnings;
};

// Error: a path that does not exist.
format::Result<Discovery> discover(const std::vector<std::string>& paths);

// The bytes of a dump or ring as an image, with what is known about the process at that moment.
struct OpenedSource {
    Source source;
    format::RingImage image;
    uint64_t now_ticks = 0;
    uint64_t seen_ticks = 0;  // newest sign of life
    Liveness liveness = Liveness::kUnknown;
    Halt halt = Halt::kNone;
    Processors processors;
    bool partial_recording = false;
    uint64_t launch_sample = 1;     // every n-th piece of stream work was recorded, 0: none; 1 also where nothing tells
    std::vector<std::byte> stacks;  // formats/stacks_layout.h, empty: none
    std::vector<std::string> problems;
};
format::Result<OpenedSource> open_source(const std::string& path, format::ImageBuffer& memory);
// Once more, the file or the member of an archive that a process was loaded from.
format::Result<OpenedSource> open_source(const Source& source, format::ImageBuffer& memory);
// Of the member of an archive that the source names.
format::Result<OpenedSource> open_source_bytes(Source source, std::span<const std::byte> bytes,
                                               format::ImageBuffer& memory);

// `symbols` name the places of calls that have no Python frames.
Process decode_process(const OpenedSource& opened, Symbols* symbols = nullptr);

// For whoever makes a Process, once its entries and members are filled in: what each member has issued and which
// entries are its calls, and the history, to which Entry::place points.
void index_calls(Process& process);

// Processes of one run and attempt, before anything is known of how they belong together.
struct LoadedProcesses {
    std::vector<Process> processes;
    std::vector<std::string> problems;  // of files
    std::vector<Warning> warnings;
    std::vector<Testimony> testimony;
    std::unordered_map<uint64_t, std::vector<int32_t>> group_ranks;  // of PyTorch's process groups, by id
};
format::Result<LoadedProcesses> load_processes(const LoadOptions& options);

}  // namespace titan::analyzer
