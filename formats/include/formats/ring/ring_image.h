// A safe view of the bytes of a ring: a ring file read into memory, or the image that a dump rebuilds.
//
// The bytes are hostile: another process may have written them a moment ago, or a bad disk, or an enemy. So every read
// copies first, checks the copy and clamps to the region; no offset, count or string of the image is ever trusted.
// The view owns nothing: the bytes must outlive it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/layout/ring_layout.h"
#include "formats/ring/ring_clock.h"
#include "host/result.h"

namespace titan::format {

using RegionHeads = std::array<uint64_t, kRegionKinds>;  // indexed by RegionKind; 0 where there is no cursor

RegionHeads heads_of(const RingHeader& header);

struct RingLosses {
    uint64_t overwritten = 0;  // entries that the ring no longer holds
    uint64_t torn = 0;         // slots that were being written
};

class RingImage {
  public:
    RingImage() = default;  // no bytes, nothing in it
    // `heads_after`: the cursors read again after the bytes were copied from a living ring. Slots that may have been
    // written during the copy are then known and left out.
    static Result<RingImage> open(std::span<const std::byte> bytes,
                                  const std::optional<RegionHeads>& heads_after = std::nullopt);

    const RingHeader& header() const { return header_; }
    const RingClock& clock() const { return clock_; }

    // Calls visit(ticket, entry) for every complete slot, oldest first.
    template <typename Visit>
    RingLosses for_each_collective(Visit&& visit) const {
        return for_each_slot<CollectiveEntry>(RegionKind::kCollectives, visit);
    }
    template <typename Visit>
    RingLosses for_each_cuda_call(Visit&& visit) const {
        return for_each_slot<CudaCallEntry>(RegionKind::kCudaCalls, visit);
    }
    template <typename Visit>
    RingLosses for_each_marker(Visit&& visit) const {
        return for_each_slot<MarkerEntry>(RegionKind::kMarkers, visit);
    }

    template <typename Visit>
    RingLosses for_each_stream_work(Visit&& visit) const {
        return for_each_slot<StreamWorkEntry>(RegionKind::kStreamWork, visit);
    }
    template <typename Visit>
    RingLosses for_each_channel(Visit&& visit) const {
        return for_each_slot<ChannelEntry>(RegionKind::kChannels, visit);
    }
    template <typename Visit>
    RingLosses for_each_health(Visit&& visit) const {
        return for_each_slot<HealthEntry>(RegionKind::kHealth, visit);
    }
    // The row that a CollectiveEntry::launch points to; its numbers tell whether it is about that launch. Empty where
    // the device reported nothing.
    std::optional<LaunchMarks> launch_marks(uint64_t launch) const;

    // Row index (the number that entries refer to) and record, published rows only.
    std::vector<std::pair<uint32_t, CommunicatorRecord>> communicators() const;
    std::vector<ThreadRecord> threads() const;
    // Spans that were open, in the order in which they began.
    std::vector<OpenSpanRecord> open_spans() const;
    // The newest value of each label, oldest first.
    std::vector<LabelRecord> labels() const;
    // Of the number in MarkerEntry::site: its key, and its place where that is known. Key 0: there is none.
    MarkerSiteRecord marker_site(uint32_t site) const;
    uint64_t collective_capacity() const;
    uint64_t first_marker() const;  // ticket of the oldest that the ring can hold; those before are overwritten
    uint64_t next_marker() const;   // ticket behind the newest, as of the header: slots can be newer

    // The string of an id, empty for 0, for unknown ids and for damage. Points into the bytes.
    std::string_view text(uint32_t id) const;
    uint32_t text_count() const;

    // The bytes of call_sites_layout.h, empty where call sites were not asked for. Point into the bytes.
    std::span<const std::byte> call_sites() const;

    // The images of stacks_layout.h with samples, older ones first; empty where they were not asked for. Point into the
    // bytes.
    std::vector<std::span<const std::byte>> stack_samples() const;

    // visit(peer, sent, received): point-to-point calls of this member, for peers with any. False: it has no counters.
    template <typename Visit>
    bool for_each_peer(const CommunicatorRecord& record, Visit&& visit) const {
        const uint64_t table = p2p_table(record);
        for (int32_t peer = 0; table != kAbsent && peer < record.size; ++peer) {
            const uint64_t offset_bytes = table + static_cast<uint64_t>(peer) * sizeof(uint64_t);
            const auto sent = copy_at<uint64_t>(offset_bytes);
            const auto received =
                copy_at<uint64_t>(offset_bytes + static_cast<uint64_t>(record.size) * sizeof(uint64_t));
            if (sent != 0 || received != 0) {
                visit(peer, sent, received);
            }
        }
        return table != kAbsent;
    }

  private:
    struct Region {
        uint64_t offset_bytes = 0;
        uint64_t stride_bytes = 0;
        uint64_t count = 0;
        uint64_t head = 0;
        uint64_t head_after = 0;
    };

    const Region* region(RegionKind kind) const;
    static constexpr uint64_t kAbsent = UINT64_MAX;
    // Offset of a member's counters, `size` of sends and then `size` of receives; kAbsent if they do not fit.
    uint64_t p2p_table(const CommunicatorRecord& record) const;

    template <typename T>
    T copy_at(uint64_t offset_bytes) const {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        std::memcpy(&value, bytes_.data() + offset_bytes, sizeof(T));
        return value;
    }
    uint64_t sequence_at(uint64_t offset_bytes) const;

    template <typename T, typename Visit>
    RingLosses for_each_slot(RegionKind kind, Visit& visit) const;

    std::span<const std::byte> bytes_;
    RingHeader header_{};
    RingClock clock_;
    std::array<Region, kRegionKinds> regions_{};  // indexed by RegionKind
};

// Text of a fixed char field that need not be terminated.
template <size_t N>
std::string_view fixed_text(const char (&field)[N]) {
    return {field, strnlen(field, N)};
}

template <typename T, typename Visit>
RingLosses RingImage::for_each_slot(RegionKind kind, Visit& visit) const {
    RingLosses losses;
    const Region* ring = region(kind);
    if (ring == nullptr) {
        return losses;
    }
    const uint64_t oldest = ring->head > ring->count ? ring->head - ring->count : 0;
    losses.overwritten = oldest;
    // One lap from the oldest ticket. Slots can be newer than the head was when the header was copied, so the slot's
    // own ticket counts, and the lap is walked in full only where the ring has wrapped or the head lags.
    uint64_t newest_end = ring->head_after;
    for (uint64_t step = 0; step < ring->count; ++step) {
        const uint64_t expected = oldest + step;
        const uint64_t offset = ring->offset_bytes + (expected % ring->count) * ring->stride_bytes;
        const uint64_t before = sequence_at(offset);
        if (before == 0) {
            if (expected >= ring->head) {
                break;
            }
            ++losses.torn;
            continue;
        }
        T entry = copy_at<T>(offset);
        const uint64_t after = sequence_at(offset);
        const uint64_t ticket = before / 2 - 1;
        const bool complete = before % 2 == 0 && before == after && entry.slot_sequence == before;
        if (!complete || ticket % ring->count != expected % ring->count) {
            ++losses.torn;
            continue;
        }
        newest_end = newest_end > ticket + 1 ? newest_end : ticket + 1;
        // Ticket t + count was handed out: its owner may have written into our copy.
        if (newest_end - ticket > ring->count) {
            ++losses.torn;
            continue;
        }
        visit(ticket, entry);
    }
    return losses;
}

}  // namespace titan::format
