#include "formats/ring/ring_image.h"

#include <algorithm>
#include <atomic>

#include "formats/layout/stacks_layout.h"

namespace titan::format {
namespace {

std::string version_text(uint16_t major, uint16_t minor) { return std::to_string(major) + "." + std::to_string(minor); }

std::string other_version(const RingHeader& header) {
    const std::string writer(fixed_text(header.writer));
    return "ring format " + version_text(header.major, header.minor) + " is not the " +
           version_text(kRingMajor, kRingMinor) +
           " that this titan-analyze reads; use the titan-analyze of the release " + "that wrote it" +
           (writer.empty() ? "" : " (" + writer + ")");
}

// Bytes of an element of each kind of region. A later minor may append to them.
constexpr std::array<uint32_t, kRegionKinds> kElementBytes = {0,
                                                              sizeof(CollectiveEntry),
                                                              sizeof(CudaCallEntry),
                                                              sizeof(MarkerEntry),
                                                              sizeof(CommunicatorRecord),
                                                              sizeof(ThreadRecord),
                                                              sizeof(StringRecord),
                                                              1,
                                                              1,
                                                              sizeof(StreamWorkEntry),
                                                              sizeof(LaunchMarks),
                                                              sizeof(ChannelEntry),
                                                              1,
                                                              sizeof(OpenSpanRecord),
                                                              sizeof(MarkerSiteRecord),
                                                              sizeof(LabelRecord),
                                                              sizeof(HealthEntry),
                                                              1};

}  // namespace

RegionHeads heads_of(const RingHeader& header) {
    RegionHeads heads{};
    for_each_region(header, [&](const RegionDescriptor& region, const RegionCursor* cursor) {
        const auto kind = static_cast<uint32_t>(region.kind);
        if (cursor != nullptr && kind < heads.size()) {
            heads[kind] = cursor->head;
        }
    });
    return heads;
}

Result<RingImage> RingImage::open(std::span<const std::byte> bytes, const std::optional<RegionHeads>& heads_after) {
    if (bytes.size() < sizeof(RingHeader)) {
        return Error("too short for a ring: " + std::to_string(bytes.size()) + " bytes, the header alone has " +
                     std::to_string(sizeof(RingHeader)));
    }
    RingImage image;
    image.bytes_ = bytes;
    image.header_ = image.copy_at<RingHeader>(0);
    const RingHeader& header = image.header_;
    if (header.magic == 0) {
        return Error("the ring was never finished");
    }
    if (header.magic == __builtin_bswap64(kRingMagic)) {
        return Error("a ring written on a machine of the other byte order");
    }
    if (header.magic != kRingMagic) {
        return Error("not a titantrace ring (wrong magic number)");
    }
    if (header.endian_tag != kEndianTag) {
        return Error("written on a machine of the other byte order, or damaged");
    }
    if (header.major != kRingMajor) {
        return Error(other_version(header));
    }
    image.clock_ = RingClock(header);
    bool is_cut = false;
    uint32_t short_kind = 0;
    for_each_region(header, [&](const RegionDescriptor& descriptor, const RegionCursor* cursor) {
        const auto kind = static_cast<uint32_t>(descriptor.kind);
        if (kind == 0 || kind >= image.regions_.size()) {
            return;
        }
        if (descriptor.stride_bytes < kElementBytes[kind]) {
            short_kind = kind;
            return;
        }
        if (descriptor.offset_bytes >= bytes.size()) {
            return;
        }
        const uint64_t room = (bytes.size() - descriptor.offset_bytes) / descriptor.stride_bytes;
        Region& region = image.regions_[kind];
        region.offset_bytes = descriptor.offset_bytes;
        region.stride_bytes = descriptor.stride_bytes;
        region.count = std::min(descriptor.count, room);
        region.head = cursor != nullptr ? cursor->head : region.count;
        region.head_after = region.head;
        if (heads_after && cursor != nullptr) {
            region.head_after = std::max((*heads_after)[kind], region.head);
        }
        // A cut ring would give every ticket another slot: the rest of it cannot be read.
        is_cut |= is_ring(descriptor.kind) && region.count != descriptor.count;
    });
    if (short_kind != 0) {
        return Error("elements of ring region " + std::to_string(short_kind) + " have fewer than " +
                     std::to_string(kElementBytes[short_kind]) + " bytes: damaged, or of no release");
    }
    if (is_cut) {
        return Error("a ring region reaches past the end of the file: truncated or damaged");
    }
    return image;
}

const RingImage::Region* RingImage::region(RegionKind kind) const {
    const Region& found = regions_[static_cast<uint32_t>(kind)];
    return found.count == 0 ? nullptr : &found;
}

uint64_t RingImage::sequence_at(uint64_t offset_bytes) const {
    const std::byte* place = bytes_.data() + offset_bytes;
    uint64_t value = 0;
    if (reinterpret_cast<uintptr_t>(place) % alignof(uint64_t) == 0) {
        // Pairs with the writer's release store of slot_sequence, for images that are living mappings.
        value = __atomic_load_n(reinterpret_cast<const uint64_t*>(place), __ATOMIC_ACQUIRE);
    } else {
        std::memcpy(&value, place, sizeof(value));
    }
    return value;
}

uint64_t RingImage::collective_capacity() const {
    const Region* ring = region(RegionKind::kCollectives);
    return ring == nullptr ? 0 : ring->count;
}

uint64_t RingImage::first_marker() const {
    const Region* ring = region(RegionKind::kMarkers);
    return ring == nullptr || ring->head <= ring->count ? 0 : ring->head - ring->count;
}

uint64_t RingImage::next_marker() const {
    const Region* ring = region(RegionKind::kMarkers);
    return ring == nullptr ? 0 : ring->head;
}

std::vector<std::pair<uint32_t, CommunicatorRecord>> RingImage::communicators() const {
    std::vector<std::pair<uint32_t, CommunicatorRecord>> rows;
    const Region* table = region(RegionKind::kCommunicators);
    if (table == nullptr) {
        return rows;
    }
    const uint64_t used = std::min(table->head, table->count);
    for (uint64_t row = 0; row < used; ++row) {
        auto record = copy_at<CommunicatorRecord>(table->offset_bytes + row * table->stride_bytes);
        if (record.published != 0) {
            rows.emplace_back(static_cast<uint32_t>(row), record);
        }
    }
    return rows;
}

std::optional<LaunchMarks> RingImage::launch_marks(uint64_t launch) const {
    const Region* table = region(RegionKind::kLaunchMarks);
    if (launch == 0 || table == nullptr) {
        return std::nullopt;
    }
    return copy_at<LaunchMarks>(table->offset_bytes + (launch - 1) % table->count * table->stride_bytes);
}

std::vector<ThreadRecord> RingImage::threads() const {
    std::vector<ThreadRecord> rows;
    const Region* table = region(RegionKind::kThreads);
    if (table == nullptr) {
        return rows;
    }
    // Rows are reused when threads end, so all of them are looked at, not only the first `head`.
    for (uint64_t row = 0; row < table->count; ++row) {
        auto record = copy_at<ThreadRecord>(table->offset_bytes + row * table->stride_bytes);
        if (record.thread != 0) {
            rows.push_back(record);
        }
    }
    return rows;
}

std::vector<OpenSpanRecord> RingImage::open_spans() const {
    std::vector<OpenSpanRecord> rows;
    const Region* table = region(RegionKind::kOpenSpans);
    constexpr uint64_t kMostRows = 1 << 16;  // the tracer makes fewer
    for (uint64_t row = 0; table != nullptr && row < std::min(table->count, kMostRows); ++row) {
        const auto record = copy_at<OpenSpanRecord>(table->offset_bytes + row * table->stride_bytes);
        if (record.id != 0) {
            rows.push_back(record);
        }
    }
    std::sort(rows.begin(), rows.end(),
              [](const OpenSpanRecord& a, const OpenSpanRecord& b) { return a.begin_ticks < b.begin_ticks; });
    return rows;
}

MarkerSiteRecord RingImage::marker_site(uint32_t site) const {
    const Region* table = region(RegionKind::kMarkerSites);
    if (site == 0 || table == nullptr || site > table->count) {
        return {};
    }
    return copy_at<MarkerSiteRecord>(table->offset_bytes + (site - 1) * table->stride_bytes);
}

std::vector<LabelRecord> RingImage::labels() const {
    std::vector<LabelRecord> rows;
    const Region* table = region(RegionKind::kLabels);
    constexpr uint64_t kMostRows = 1 << 12;  // the tracer makes fewer
    for (uint64_t row = 0; table != nullptr && row < std::min(table->count, kMostRows); ++row) {
        const auto record = copy_at<LabelRecord>(table->offset_bytes + row * table->stride_bytes);
        if (record.key != 0 && record.key <= UINT32_MAX) {
            rows.push_back(record);
        }
    }
    std::sort(rows.begin(), rows.end(), [](const LabelRecord& a, const LabelRecord& b) { return a.ticks < b.ticks; });
    return rows;
}

std::span<const std::byte> RingImage::call_sites() const {
    const Region* sites = region(RegionKind::kCallSites);
    return sites == nullptr || sites->stride_bytes != 1 ? std::span<const std::byte>()
                                                        : bytes_.subspan(sites->offset_bytes, sites->count);
}

std::vector<std::span<const std::byte>> RingImage::stack_samples() const {
    std::vector<std::span<const std::byte>> images;
    const Region* samples = region(RegionKind::kStackSamples);
    if (samples == nullptr || samples->stride_bytes != 1) {
        return images;
    }
    const auto all = bytes_.subspan(samples->offset_bytes, samples->count);
    const size_t each = all.size() / kSampleImages;
    const auto header_of = [](std::span<const std::byte> image) {
        StacksHeader header{};
        std::memcpy(&header, image.data(), sizeof(header));
        return header;
    };
    for (uint32_t i = 0; i < kSampleImages && each >= sizeof(StacksHeader); ++i) {
        const auto image = all.subspan(i * each, each);
        if (header_of(image).magic != 0) {  // else it was not begun
            images.push_back(image);
        }
    }
    std::stable_sort(images.begin(), images.end(), [&](const auto& a, const auto& b) {
        return header_of(a).began_realtime_ns < header_of(b).began_realtime_ns;
    });
    return images;
}

uint32_t RingImage::text_count() const {
    const Region* index = region(RegionKind::kStringIndex);
    return index == nullptr ? 0 : static_cast<uint32_t>(std::min<uint64_t>(index->count, UINT32_MAX - 1));
}

std::string_view RingImage::text(uint32_t id) const {
    const Region* index = region(RegionKind::kStringIndex);
    const Region* heap = region(RegionKind::kStringHeap);
    if (id == 0 || index == nullptr || heap == nullptr || id > index->count) {
        return {};
    }
    const auto record = copy_at<StringRecord>(index->offset_bytes + (id - 1) * index->stride_bytes);
    if (record.length_bytes == 0) {
        return {};
    }
    const uint64_t length = record.length_bytes - 1;
    const uint64_t heap_bytes = heap->count * heap->stride_bytes;
    if (record.offset_bytes > heap_bytes || length > heap_bytes - record.offset_bytes) {
        return {};
    }
    return {reinterpret_cast<const char*>(bytes_.data()) + heap->offset_bytes + record.offset_bytes, length};
}

uint64_t RingImage::p2p_table(const CommunicatorRecord& record) const {
    const Region* heap = region(RegionKind::kP2pCounters);
    if (heap == nullptr || record.p2p_offset_bytes == kNoSequence || record.size <= 0) {
        return kAbsent;
    }
    const uint64_t heap_bytes = heap->count * heap->stride_bytes;
    const uint64_t table_bytes = 2 * static_cast<uint64_t>(record.size) * sizeof(uint64_t);
    if (record.p2p_offset_bytes > heap_bytes || table_bytes > heap_bytes - record.p2p_offset_bytes) {
        return kAbsent;
    }
    return heap->offset_bytes + record.p2p_offset_bytes;
}

}  // namespace titan::format
