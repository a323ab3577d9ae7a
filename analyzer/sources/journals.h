// The journals of a run (formats/layout/journal_layout.h): which processes they are of, and their markers block by
// block, with the sums of their steps. Of the files only an index is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "formats/container/journal_reader.h"
#include "formats/ring/ring_clock.h"
#include "formats/ring/ring_image.h"
#include "host/file_bytes.h"
#include "open_source.h"

namespace titan::analyzer {

// --- Blocks of one process's journal as one.

class BlockJoiner {
  public:
    explicit BlockJoiner(const format::RingHeader& header) { joined_.header = header; }

    // A block behind those before it; markers that no block has leave empty slots.
    void add(format::MarkerBlock block);
    // Markers that are older than all those of the others, on any tickets.
    void put_before(format::MarkerBlock block);
    const format::MarkerBlock& joined() const { return joined_; }

  private:
    void renumber(format::MarkerBlock& block);
    uint32_t text(const std::string& text);

    format::MarkerBlock joined_;
    std::map<std::string, uint32_t> texts_;
    std::unordered_map<uint64_t, uint32_t> sites_;  // by key
};

// From the first to the last; nothing: all.
using StepRange = std::optional<std::pair<int64_t, int64_t>>;

// A process of any node.
using ProcessKey = format::JournalProcess;

ProcessKey process_key(const Process& process);

// Of any size: nobody reads one whole.
Result<OpenFile> open_journal(const std::string& path);

// Not thread-safe.
class Journals {
  public:
    // Files that cannot be read, and what is damaged in others, become problems.
    explicit Journals(const std::vector<std::string>& paths);

    std::vector<ProcessKey> processes() const;
    bool holds(const ProcessKey& process) const { return processes_.contains(process); }
    // Of the files that have blocks of it.
    std::set<std::string> paths_of(const ProcessKey& process) const;
    const std::vector<std::string>& problems() const { return problems_; }

    // Its newest block that can be read, as a ring in `memory`. False: there is none.
    bool newest(const ProcessKey& process, std::vector<std::byte>& memory, format::RingImage& image);
    // Its newest markers, fewer where there are many processes, and its labels, as a ring in `memory`, and how the
    // process ended. Likewise.
    bool open(const ProcessKey& process, std::vector<std::byte>& memory, OpenedSource& opened);

    // Calls visit(image) for each block of the process with markers on tickets from `from` to before `until`, oldest
    // first: a ring that holds these markers and what they refer to, and lives until the call returns. Markers lie in
    // one block only. Of `steps`, blocks of other steps are left out, but for the first step and what comes right
    // behind the last: these tell when steps begin and end. Answers how many of these tickets are in none; without a
    // limit, how many before the last one.
    uint64_t visit(const ProcessKey& process, uint64_t from, uint64_t until, const StepRange& steps,
                   const std::function<void(const format::RingImage& image)>& visit);

    // Likewise visit(block) for each block that sums up calls, and in between gap(from, until) for calls that no block
    // sums up; the last gap has no limit.
    using VisitSums = std::function<void(const format::MarkerBlock& block)>;
    void visit_steps(const ProcessKey& process, const StepRange& steps, const VisitSums& visit,
                     const std::function<void(uint64_t from, uint64_t until)>& gap);
    // Blocks with readings of the machine.
    void visit_health(const ProcessKey& process, const StepRange& steps, const VisitSums& visit);

  private:
    struct Part {
        uint32_t file = 0;
        format::JournalPart part{};
    };
    struct Process {
        const ProcessKey* key = nullptr;
        std::vector<Part> parts;  // by first ticket
        // Sites that had no words yet when a block was written: from a later block, by key.
        std::map<uint64_t, std::string> places;
        std::optional<format::ClockAnchor> newest;  // of the newest block that can be read, with its clock
        format::RingClock clock;
    };
    using VisitBlock = std::function<void(const Part& part, format::MarkerBlock& block)>;
    uint64_t visit_blocks(const ProcessKey& process, uint64_t from, uint64_t until, const StepRange& steps,
                          const VisitBlock& visit);
    void add(uint32_t file, const format::JournalIndex& index);
    void add_labels(Process& process, BlockJoiner& joiner);
    Result<format::MarkerBlock> read(const Process& process, const Part& part);
    void note(const Part& part, const Error& error);
    void set_clock(format::MarkerBlock& block, Process& process);
    void complete_places(format::MarkerBlock& block, Process& process, size_t next_part);
    const std::string& place_in_later(uint64_t key, Process& process, size_t next_part);

    std::vector<std::string> paths_;
    std::map<ProcessKey, Process> processes_;
    std::vector<std::string> problems_;
    size_t open_file_ = SIZE_MAX;
    std::unique_ptr<OpenFile> file_;
};

}  // namespace titan::analyzer
