#include "formats/container/journal_writer.h"

#include <cstring>

#include "formats/container/marker_columns.h"
#include "formats/container/packed_bytes.h"
#include "formats/container/section_writer.h"
#include "formats/container/step_columns.h"

namespace titan::format {
namespace {

// What is longer is cut: a block must have room for its markers.
constexpr size_t kMostTextBytes = 4096;
// Between the texts and the markers, of which each takes 64 bytes at worst.
constexpr size_t kTextRoomBytes = 512 << 10;

BlockRow row_of(const MarkerRun& run, const StepSums& sums) {
    BlockRow row{};
    row.note_no_steps();
    row.first_ticket = run.first_ticket;
    row.markers = run.markers.size();
    row.first_call = sums.first_call;
    row.next_call = sums.next_call;
    for (const MarkerEntry& marker : run.markers) {
        row.note_steps(marker);
    }
    for (const StepSum& sum : sums.steps) {
        row.note_step(sum.step);
    }
    return row;
}

// Where a communicator is not in the table, the sums are of an unknown one.
void write_calls(PackedBytes& packed, const StepSums& sums) {
    packed.number(sums.communicators.size());
    for (const StepCommunicator& communicator : sums.communicators) {
        packed.number(communicator.id);
        packed.number(communicator.size);
        packed.number(communicator.name);
    }
    packed.number(sums.calls.size());
    size_t place = 0;
    for (const StepCalls& calls : sums.calls) {
        const size_t most = sums.communicators.size();
        size_t seen = 0;
        while (seen < most && sums.communicators[place].id != calls.communicator_id) {
            place = (place + 1) % most;
            ++seen;
        }
        packed.number(seen == most ? 0 : place + 1);
    }
    code_step_calls(packed, sums.calls);
}

bool is_of(const BlockProcess& process, const RingHeader& header) {
    return process.pid == header.pid && process.pid_start_ticks == header.pid_start_ticks &&
           std::memcmp(process.boot_id, header.boot_id, sizeof(process.boot_id)) == 0;
}

}  // namespace

template <uint32_t most>
uint32_t LocalNumbers<most>::of(uint32_t number) {
    if (number == 0) {
        return 0;
    }
    uint32_t row = number % kRows;
    while (rows_[row] != 0) {
        if (numbers_[rows_[row] - 1] == number) {
            return rows_[row];
        }
        row = (row + 1) % kRows;
    }
    if (count_ == most) {
        return 0;
    }
    numbers_[count_++] = number;
    rows_[row] = count_;
    return count_;
}

template <uint32_t most>
void LocalNumbers<most>::clear() {
    count_ = 0;
    std::memset(rows_, 0, sizeof(rows_));
}

size_t JournalBlock::pack(const RingHeader& header, const MarkerRun& run, const StepSums& sums,
                          const MarkerWords& words) {
    static_assert(kMostBytes <= kMaxSectionRawBytes);
    const size_t most = run.markers.size() < kJournalBlockMarkers ? run.markers.size() : kJournalBlockMarkers;
    texts_.clear();
    sites_.clear();
    text_bytes_ = 0;
    for (StepCommunicator& communicator : sums.communicators) {
        communicator.name = text_of(communicator.name, words);
    }
    for (HealthExtremes& row : sums.health) {
        row.name = text_of(row.name, words);
    }
    const size_t fit = number(run.markers.first(most), words);
    const MarkerRun fitting{run.first_ticket, run.markers.first(fit)};
    row_ = row_of(fitting, sums);
    write(header, fitting, sums, words);
    return fit;
}

uint32_t JournalBlock::text_of(uint32_t id, const MarkerWords& words) {
    const size_t known = texts_.all().size();
    const uint32_t local = texts_.of(id);
    if (texts_.all().size() != known) {
        char text[kMostTextBytes];
        text_bytes_ += words.text(words.context, id, text, sizeof(text)) + 2;
    }
    return local;
}

// A marker brings two texts, and a site whose place is a third.
size_t JournalBlock::number(std::span<MarkerEntry> markers, const MarkerWords& words) {
    size_t fit = 0;
    while (fit < markers.size() && texts_.all().size() + 3 <= kJournalBlockTexts && !sites_.is_full() &&
           text_bytes_ + 3 * kMostTextBytes < kTextRoomBytes) {
        MarkerEntry& marker = markers[fit++];
        marker.name = text_of(marker.name, words);
        marker.text = text_of(marker.text, words);
        const size_t known = sites_.all().size();
        const uint32_t site = marker.site;
        marker.site = sites_.of(site);
        if (sites_.all().size() != known) {
            MarkerSiteRecord& row = site_rows_[known];
            row = words.site(words.context, site);
            row.place = text_of(row.place, words);
        }
    }
    return fit;
}

void JournalBlock::write(const RingHeader& header, const MarkerRun& run, const StepSums& sums,
                         const MarkerWords& words) {
    PackedBytes packed(bytes_, sizeof(bytes_));
    packed.field(JournalTag::kHeader, [&] { packed.put(&header, sizeof(header)); });
    packed.field(JournalTag::kTickets, [&] {
        packed.number(run.first_ticket);
        packed.number(run.markers.size());
        packed.number(sums.first_call);
        packed.number(sums.next_call);
    });
    packed.field(JournalTag::kTexts, [&] {
        packed.number(texts_.all().size());
        for (const uint32_t id : texts_.all()) {
            char text[kMostTextBytes];
            const size_t length = words.text(words.context, id, text, sizeof(text));
            packed.number(length);
            packed.put(text, length);
        }
    });
    packed.field(JournalTag::kSites, [&] {
        packed.number(sites_.all().size());
        for (size_t i = 0; i < sites_.all().size(); ++i) {
            packed.number(site_rows_[i].key);
            packed.number(site_rows_[i].place);
        }
    });
    packed.field(JournalTag::kMarkers, [&] { code_markers(packed, run.markers); });
    packed.field(JournalTag::kSteps, [&] {
        packed.number(sums.steps.size());
        code_steps(packed, sums.steps);
    });
    if (!sums.calls.empty()) {
        packed.field(JournalTag::kStepCalls, [&] { write_calls(packed, sums); });
    }
    if (!sums.health.empty()) {
        packed.field(JournalTag::kHealth, [&] {
            packed.number(sums.health.size());
            code_health(packed, sums.health);
        });
    }
    size_bytes_ = packed.good() ? packed.size_bytes() : 0;
}

void BlockIndex::add(const RingHeader& header, BlockRow row, uint64_t size_bytes) {
    row.process = process_of(header);
    row.size_bytes = static_cast<uint32_t>(size_bytes);
    rows_[rows_count_++] = row;
}

uint32_t BlockIndex::process_of(const RingHeader& header) {
    for (uint32_t i = process_count_; i > 0; --i) {
        if (is_of(processes_[i - 1], header)) {
            return i - 1;
        }
    }
    BlockProcess& process = processes_[process_count_];
    std::memcpy(process.boot_id, header.boot_id, sizeof(process.boot_id));
    process.pid = header.pid;
    process.pid_start_ticks = header.pid_start_ticks;
    return process_count_++;
}

std::span<const unsigned char> BlockIndex::pack() {
    PackedBytes packed(bytes_, sizeof(bytes_));
    packed.field(IndexTag::kProcesses, [&] {
        packed.number(process_count_);
        for (uint32_t i = 0; i < process_count_; ++i) {
            const BlockProcess& process = processes_[i];
            const size_t length = strnlen(process.boot_id, sizeof(process.boot_id));
            packed.number(length);
            packed.put(process.boot_id, length);
            packed.number(process.pid);
            packed.number(process.pid_start_ticks);
        }
    });
    packed.field(IndexTag::kBlocks, [&] {
        packed.number(rows_count_);
        code_rows(packed, std::span(rows_, rows_count_));
    });
    return {bytes_, packed.good() ? packed.size_bytes() : 0};
}

}  // namespace titan::format
