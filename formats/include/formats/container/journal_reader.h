// Reads journals (journal_layout.h). The bytes are hostile: sizes and numbers are claims until they are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "formats/layout/journal_index.h"
#include "formats/layout/journal_layout.h"
#include "formats/layout/ring_layout.h"
#include "formats/layout/step_sum.h"
#include "host/result.h"

namespace titan::format {

struct JournalProcess {
    std::string boot_id;
    int32_t pid = 0;
    uint64_t pid_start_ticks = 0;
    auto operator<=>(const JournalProcess&) const = default;
};
JournalProcess process_of(const RingHeader& header);

// Where in a file a block lies, and what is in it. Where no index tells, its steps may be any.
struct JournalPart : BlockRow {
    uint64_t offset_bytes;
};

struct JournalIndex {
    std::vector<JournalProcess> processes;  // JournalPart::process is a place among them
    std::vector<JournalPart> parts;         // in the order of the file
    std::vector<std::string> problems;      // what is damaged
};

// Reads bytes of a file from an offset on; answers how many there were.
using ReadBytes = std::function<size_t(uint64_t offset_bytes, void* into, size_t size_bytes)>;

// Markers of one process, on consecutive tickets. Texts and sites are numbered from 1.
struct MarkerBlock {
    RingHeader header{};
    uint64_t first_ticket = 0;
    uint64_t first_call = 0;
    uint64_t next_call = 0;
    std::vector<MarkerEntry> markers;
    std::vector<std::string> texts;
    std::vector<MarkerSiteRecord> sites;
    std::vector<StepSum> steps;
    std::vector<StepCalls> calls;
    std::vector<StepCommunicator> communicators;  // names are numbers of texts, as are those of health
    std::vector<HealthExtremes> health;

    // Empty: none.
    std::string text(uint32_t number) const {
        return number == 0 || number > texts.size() ? std::string() : texts[number - 1];
    }
};

inline constexpr uint32_t kMaxJournalSections = 1 << 24;

bool is_journal(std::span<const std::byte> file);

// What lies in the file. Reads the indexes in it, and whole only those blocks that no index tells of. An error if this
// is no journal that we can read.
Result<JournalIndex> index_journal(uint64_t file_bytes, const ReadBytes& read);
Result<JournalIndex> index_journal(std::span<const std::byte> file);

// The block in these bytes of the file, from a part's offset on.
Result<MarkerBlock> read_block(std::span<const std::byte> bytes);
// Likewise, and an error if it is not what the index says.
Result<MarkerBlock> read_block(std::span<const std::byte> bytes, const JournalProcess& process,
                               const JournalPart& part);

}  // namespace titan::format
