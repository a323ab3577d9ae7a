// What the index in front of some blocks of a journal tells of each: enough to know whether it is wanted.
#pragma once

#include <cstdint>
#include <span>

#include "formats/layout/ring_layout.h"
#include "formats/layout/step_sum.h"

namespace titan::format {

// The process that blocks are of, by fields of its RingHeader.
struct BlockProcess {
    char boot_id[40];
    int32_t pid;
    uint64_t pid_start_ticks;
};

struct BlockRow {
    uint32_t process;     // its place among the processes of the index
    uint32_t size_bytes;  // of the section, with its header
    uint64_t first_ticket;
    uint64_t markers;
    uint64_t first_call;  // of those summed up; as next_call: none are
    uint64_t next_call;
    int64_t first_step;  // of markers and sums; kNoStep before the first
    int64_t last_step;   // less than first_step: there are neither

    void note_no_steps() {
        first_step = INT64_MAX;
        last_step = INT64_MIN;
    }
    bool overlaps(int64_t first, int64_t last) const { return first_step <= last && last_step >= first; }

    void note_step(int64_t step) {
        first_step = step < first_step ? step : first_step;
        last_step = step > last_step ? step : last_step;
    }
    // A step marker lies in the step before, and begins another.
    void note_steps(const MarkerEntry& marker) {
        note_step(marker.step);
        if (marker.kind == MarkerKind::kStep) {
            note_step(static_cast<int64_t>(marker.value));
        }
    }
};

inline constexpr uint32_t kJournalIndexBlocks = 1 << 10;  // of one index
inline constexpr uint32_t kJournalIndexProcesses = 1 << 9;

// Ranks go on side by side: most of a row is that of the one before.
template <typename Coder>
void code_rows(Coder& coder, std::span<BlockRow> rows) {
    uint64_t first_ticket = 0;
    uint64_t first_call = 0;
    uint64_t first_step = 0;
    for (BlockRow& row : rows) {
        coder.number(row.process);
        coder.number(row.size_bytes);
        coder.delta(row.first_ticket, first_ticket);
        coder.number(row.markers);
        coder.delta(row.first_call, first_call);
        uint64_t next_call = first_call;
        coder.delta(row.next_call, next_call);
        coder.delta(row.first_step, first_step);
        uint64_t last_step = first_step;
        coder.delta(row.last_step, last_step);
    }
}

}  // namespace titan::format
