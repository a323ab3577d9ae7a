// Reads journals (journal_layout.h). The bytes are hostile: sizes and numbers are claims until they are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/layout/journal_layout.h"
#include "formats/layout/ring_layout.h"
#include "formats/layout/step_sum.h"
#include "host/result.h"

namespace titan::format {

// Where in a file a block lies, and what is in it.
struct JournalPart {
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    std::string boot_id;
    int32_t pid = 0;
    int32_t rank = -1;
    uint64_t pid_start_ticks = 0;
    uint64_t first_ticket = 0;
    uint64_t markers = 0;
    uint64_t first_call = 0;  // of those summed up; as next_call: none are
    uint64_t next_call = 0;
};

struct JournalIndex {
    std::vector<JournalPart> parts;     // in the order of the file
    std::vector<std::string> problems;  // what is damaged
};

// Markers of one process, on consecutive tickets. Texts and sites are numbered from 1.
struct MarkerBlock {
    RingHeader header{};
    uint64_t first_ticket = 0;
    std::vector<MarkerEntry> markers;
    std::vector<std::string> texts;
    std::vector<MarkerSiteRecord> sites;
    std::vector<StepSum> steps;
};

inline constexpr uint32_t kMaxJournalSections = 1 << 24;

bool is_journal(std::span<const std::byte> file);

// What lies in the file; of each block only its beginning is unpacked. An error if this is no journal that we can read.
Result<JournalIndex> index_journal(std::span<const std::byte> file);

// The block in these bytes of the file, from a part's offset on.
Result<MarkerBlock> read_block(std::span<const std::byte> bytes);

}  // namespace titan::format
