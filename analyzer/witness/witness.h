// Witnesses other than the recorders: logs of a launcher, a scheduler, NCCL or PyTorch about the processes of a job, in
// files that are given or lie beside the dumps. A witness tells of ranks that left no record, and how processes ended
// that could not say it themselves.
//
// Anybody may have written such a file: a reader trusts no byte, takes a bounded number of statements from it and
// throws nothing. Another witness: one file in witness/ and a row in the table of witness.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"
#include "testimony.h"

namespace titan::analyzer {

// "killed by SIGKILL", "exited with status 3", "killed by SIGKILL: out of memory"; empty where nothing tells.
std::string ending_text(const Testimony& said);

struct WitnessFile {
    std::string path;
    std::string label;        // name for messages
    std::string_view text;    // of a large file its beginning and its end
    int64_t modified_ns = 0;  // 0 unknown
};

struct WitnessReader {
    std::string_view name;
    // True if the file may hold statements. Cheap: called for each log beside the dumps. A file can belong to several
    // witnesses.
    bool (*recognises)(const WitnessFile& file);
    void (*read)(const WitnessFile& file, std::vector<Testimony>& into);
    bool whole = false;  // a part of such a file says nothing: long ones are read whole, too
};

// Names of files that are searched if they lie beside dumps: logs, error files, and usual targets of redirection.
bool is_witness_name(std::string_view name);
// One that is given by name may be called anything: its content decides.
bool is_witness_file(const std::string& path);

// Runs all readers on one file. At most kMaxTestimonies.
inline constexpr size_t kMaxTestimonies = 4096;
std::vector<Testimony> testimonies_of(const WitnessFile& file);

// Reads all these files, in order; files that cannot be read, and parts left out because they are too much, become
// problems.
std::vector<Testimony> read_witnesses(const std::vector<std::string>& paths, std::vector<std::string>& problems);

// --- Files of witnesses that are known and not read.

// They become warnings.
void warn_of_unread(Run& run);

}  // namespace titan::analyzer
