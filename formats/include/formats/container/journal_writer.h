// Makes the blocks of a journal (journal_layout.h), in memory that the caller brings: no allocation, no system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/container/packed_number.h"
#include "formats/layout/journal_index.h"
#include "formats/layout/journal_layout.h"
#include "formats/layout/ring_layout.h"
#include "formats/layout/step_sum.h"

namespace titan::format {

// Looks up what markers refer to, in the ring that they come from.
struct MarkerWords {
    void* context;
    // Copies the text of an id; returns its length, cut to the capacity. 0: there is none.
    size_t (*text)(void* context, uint32_t id, char* into, size_t capacity_bytes);
    // Of MarkerEntry::site, not 0. Key 0: there is none.
    MarkerSiteRecord (*site)(void* context, uint32_t site);
};

// On consecutive tickets.
struct MarkerRun {
    uint64_t first_ticket;
    std::span<MarkerEntry> markers;
};

// Sums of steps, of the calls with these tickets. A step may be in several. Names are ids of texts, and become numbers
// in the block.
struct StepSums {
    uint64_t first_call;
    uint64_t next_call;
    std::span<StepSum> steps;
    std::span<StepCalls> calls{};
    std::span<StepCommunicator> communicators{};  // of the calls
    std::span<HealthExtremes> health{};
};

// Numbers within a block for numbers of the ring, in the order in which they come.
template <uint32_t most>
class LocalNumbers {
  public:
    // 0 for 0, and where the block is full.
    uint32_t of(uint32_t number);
    void clear();
    std::span<const uint32_t> all() const { return {numbers_, count_}; }
    bool is_full() const { return count_ == most; }

  private:
    static constexpr uint32_t kRows = 2 * most;
    uint32_t numbers_[most];
    uint32_t count_;
    uint32_t rows_[kRows];  // local numbers, open addressing
};

// Lives in zeroed memory of its own: too large for a stack.
class JournalBlock {
  public:
    // Packs the sums and the first of the markers; returns how many of these fit, and renumbers them and the sums.
    size_t pack(const RingHeader& header, const MarkerRun& run, const StepSums& sums, const MarkerWords& words);
    // Empty where it could not be packed.
    std::span<const unsigned char> bytes() const { return {bytes_, size_bytes_}; }
    // What an index tells of it, but for its process and size.
    const BlockRow& row() const { return row_; }

  private:
    uint32_t text_of(uint32_t id, const MarkerWords& words);
    size_t number(std::span<MarkerEntry> markers, const MarkerWords& words);
    void write(const RingHeader& header, const MarkerRun& run, const StepSums& sums, const MarkerWords& words);

    static constexpr size_t kMostBytes = 1 << 20;
    LocalNumbers<kJournalBlockTexts> texts_;
    LocalNumbers<kJournalBlockSites> sites_;
    MarkerSiteRecord site_rows_[kJournalBlockSites];
    size_t text_bytes_;
    BlockRow row_;
    size_t size_bytes_;
    unsigned char bytes_[kMostBytes];
};

// The index of blocks that are to follow. Lives in zeroed memory of its own, too.
class BlockIndex {
  public:
    bool is_full() const { return rows_count_ == kJournalIndexBlocks || process_count_ == kJournalIndexProcesses; }
    bool is_empty() const { return rows_count_ == 0; }
    // A block of that process, `size_bytes` with the header of its section. Not where it is full.
    void add(const RingHeader& header, BlockRow row, uint64_t size_bytes);
    void clear() { rows_count_ = process_count_ = 0; }
    // Valid until the next call.
    std::span<const unsigned char> pack();

    static constexpr size_t kMostBytes =
        8 * kMostVarintBytes * kJournalIndexBlocks + kJournalIndexProcesses * (sizeof(BlockProcess) + 16) + 64;

  private:
    uint32_t process_of(const RingHeader& header);

    BlockProcess processes_[kJournalIndexProcesses];
    BlockRow rows_[kJournalIndexBlocks];
    uint32_t process_count_;
    uint32_t rows_count_;
    unsigned char bytes_[kMostBytes];
};

}  // namespace titan::format
