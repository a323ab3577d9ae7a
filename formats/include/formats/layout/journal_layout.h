// The journal: markers and sums of steps of all ranks of a node, as long as the job runs. A file header, then sections
// as in a dump (dump_layout.h); more are appended until the file is full. FORMAT.md, section 10, is the prose twin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "formats/layout/dump_layout.h"

namespace titan::format {

inline constexpr uint64_t kJournalMagic = 0x4C4E524A4E544954;  // "TITNJRNL"
inline constexpr uint64_t kForeignJournalMagic = __builtin_bswap64(kJournalMagic);
inline constexpr uint16_t kJournalMajor = 1;  // a reader refuses another major
inline constexpr uint16_t kJournalMinor = 0;  // fields appended: a reader skips tags that it does not know

inline constexpr std::string_view kJournalSuffix = ".journal";

enum class JournalSection : uint32_t {
    kBlock = 1,  // of one process: markers, on consecutive tickets, and sums of steps: fields, each a tag, a length and
                 // that many bytes
    kIndex = 2,  // of the blocks that follow, one right behind the other, or of as many as the file has: fields, too. A
                 // block that no index tells of is as good as others
};

// Fields of a block, in this order. Texts and sites are numbered from 1 within the block; 0 is none.
enum class JournalTag : uint8_t {
    kHeader = 1,   // RingHeader of the process at that moment: whose they are, and its clock
    kTickets = 2,  // ticket of the first marker, number of markers; ticket of the first call that is summed up, and of
                   // the first one behind those
    kTexts = 3,    // count, then of each its length and bytes
    kSites = 4,    // count, then of each its key and the text of its place
    kMarkers = 5,  // columns (marker_columns.h)
    kSteps = 6,    // number of steps, then of each its sum (step_columns.h)
    kStepCalls = 7,  // communicators: count, then of each its id, size, and the text of its name; number of sums by
                     // communicator and operation, then their columns (step_columns.h)
    kHealth = 8,     // number of readings of the machine with other values, then of each its extremes (step_columns.h)
};

// Fields of an index, in this order.
enum class IndexTag : uint8_t {
    kProcesses = 1,  // count, then of each its boot id (length and bytes), pid, start
    kBlocks = 2,     // count, then of each its row (journal_index.h)
};

// Limits of one block.
inline constexpr uint32_t kJournalBlockMarkers = 1 << 12;
inline constexpr uint32_t kJournalBlockTexts = 1 << 12;
inline constexpr uint32_t kJournalBlockSites = 1 << 11;
inline constexpr uint32_t kJournalBlockSteps = 1 << 10;
inline constexpr uint32_t kJournalBlockCalls = 1 << 11;  // sums by communicator and operation
inline constexpr uint32_t kJournalCommunicators = 1 << 8;
inline constexpr uint32_t kJournalHealthNames = 1 << 7;
// Of one step.
inline constexpr uint32_t kJournalStepCalls = 24;

// "node7-1f2e3d4c.3.journal": the fourth file of a node in this attempt. The part behind the host is of its boot. What
// a host's name may not have in a file's becomes "_".
struct JournalName {
    JournalName(const char* host, const char* boot_id, uint32_t number) {
        TextWriter name(text, sizeof(text));
        for (const char* next = host; *next != '\0'; ++next) {
            name.put(*next == '/' || (next == host && *next == '.') ? '_' : *next);
        }
        name.put('-');
        for (size_t i = 0; i < kBootBytes && boot_id[i] != '\0'; ++i) {
            name.put(boot_id[i]);
        }
        name.format(".%u%s", number, kJournalSuffix.data());
    }

    static constexpr size_t kBootBytes = 8;
    char text[128];
};

}  // namespace titan::format
