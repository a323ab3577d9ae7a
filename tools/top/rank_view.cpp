#include "top/rank_view.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "decode_process.h"
#include "formats/ring/ring_image.h"
#include "rings.h"

namespace titan::tools {
namespace {

using format::RegionDescriptor;
using format::RegionKind;
using format::RingHeader;

constexpr int64_t kRateWindowNs = 10'000'000'000;

// Reads pieces of the file to their places in an image that is zero elsewhere.
class Reader {
  public:
    Reader(const OwnedFile& file, ImageBuffer& memory) : file_(file), memory_(memory) {}

    bool piece(uint64_t offset_bytes, uint64_t size_bytes) {
        const uint64_t end_bytes = memory_.bytes().size();
        if (offset_bytes >= end_bytes || size_bytes == 0) {
            return size_bytes == 0;
        }
        size_bytes = std::min(size_bytes, end_bytes - offset_bytes);
        const size_t got = file_.read_at(offset_bytes, memory_.write_at(offset_bytes, size_bytes), size_bytes);
        read_bytes_ += got;
        return got == size_bytes;
    }

    bool rows(const RegionDescriptor& region, uint64_t count) {
        return piece(region.offset_bytes, std::min(count, region.count) * region.stride_bytes);
    }

    // The slots of the newest tickets.
    bool newest(const RegionDescriptor& region, uint64_t head, uint64_t most) {
        if (region.count == 0) {
            return true;
        }
        const uint64_t wanted = std::min({head, most, region.count});
        const uint64_t first = (head - wanted) % region.count;
        const uint64_t until_end = std::min(wanted, region.count - first);
        return piece(region.offset_bytes + first * region.stride_bytes, until_end * region.stride_bytes) &&
               rows(region, wanted - until_end);
    }

    size_t read_bytes() const { return read_bytes_; }

  private:
    const OwnedFile& file_;
    ImageBuffer& memory_;
    size_t read_bytes_ = 0;
};

// True where the region is of use here.
bool read_region(Reader& reader, const RegionDescriptor& region, uint64_t head, bool& whole) {
    switch (region.kind) {
        case RegionKind::kCollectives: whole &= reader.newest(region, head, kNewestCalls); return true;
        case RegionKind::kMarkers: whole &= reader.newest(region, head, kNewestMarkers); return true;
        case RegionKind::kCommunicators:
        case RegionKind::kStringHeap:
        case RegionKind::kP2pCounters: whole &= reader.rows(region, head); return true;
        case RegionKind::kThreads:
        case RegionKind::kStringIndex:
        case RegionKind::kLabels:
        case RegionKind::kLaunchMarks: whole &= reader.rows(region, region.count); return true;
        case RegionKind::kHealth: whole &= reader.newest(region, head, region.count); return true;
        default: return false;
    }
}

// Regions that are not read are taken out of the header of the image.
Result<size_t> read_newest(const OwnedFile& file, ImageBuffer& memory) {
    Reader reader(file, memory);
    if (file.size_bytes() < sizeof(RingHeader) || file.size_bytes() > kMaxRingBytes ||
        !memory.reset(file.size_bytes()) || !reader.piece(0, sizeof(RingHeader))) {
        return Error("no ring, or cut off");
    }
    RingHeader header;
    std::memcpy(&header, memory.bytes().data(), sizeof(header));
    bool whole = header.magic == format::kRingMagic && header.file_bytes <= file.size_bytes();
    format::for_each_region(header, [&](RegionDescriptor& region, const format::RegionCursor* cursor) {
        const bool sane = region.stride_bytes != 0 && region.offset_bytes < file.size_bytes() &&
                          region.count <= (file.size_bytes() - region.offset_bytes) / region.stride_bytes;
        if (!whole || !sane || !read_region(reader, region, cursor != nullptr ? cursor->head : region.count, whole)) {
            region.kind = RegionKind::kNone;
        }
    });
    if (!whole) {
        return Error("truncated or damaged");
    }
    std::memcpy(memory.write_at(0, sizeof(header)), &header, sizeof(header));
    return reader.read_bytes();
}

// Slots that were taken while we read are known by the heads afterwards.
std::optional<format::RegionHeads> heads_now(const OwnedFile& file) {
    RingHeader header;
    if (file.read_at(0, &header, sizeof(header)) != sizeof(header)) {
        return std::nullopt;
    }
    return format::heads_of(header);
}

struct StepMark {
    int64_t step;
    int64_t at_ns;
};

double rate_of(const std::vector<StepMark>& marks, int64_t now_ns) {
    if (marks.size() < 2) {
        return -1;
    }
    const StepMark& last = marks.back();
    size_t first = marks.size() - 2;
    while (first > 0 && marks[first - 1].at_ns >= last.at_ns - kRateWindowNs) {
        --first;
    }
    const int64_t steps = last.step - marks[first].step;
    const int64_t span_ns = last.at_ns - marks[first].at_ns;
    if (steps <= 0 || span_ns <= 0) {
        return -1;
    }
    const bool stopped = now_ns - last.at_ns > 3 * span_ns / steps + 1'000'000'000;
    return stopped ? 0 : static_cast<double>(steps) * 1e9 / static_cast<double>(span_ns);
}

void read_steps(const format::RingImage& image, int64_t now_ns, RankView& rank) {
    std::vector<StepMark> marks;
    image.for_each_marker([&](uint64_t, const format::MarkerEntry& marker) {
        if (marker.kind == format::MarkerKind::kStep) {
            marks.push_back({static_cast<int64_t>(marker.value), image.clock().realtime_ns(marker.ticks)});
        }
    });
    rank.steps_per_s = rate_of(marks, now_ns);
    const int64_t began_ns = image.clock().realtime_ns(image.header().step_ticks);
    rank.step_age_ns = began_ns == 0 ? 0 : std::max<int64_t>(0, now_ns - began_ns);
}

analyzer::Liveness liveness_of(const NodeProcess& process) {
    if (!process.is_gone()) {
        return process.header.state == format::ProcessState::kExited ? analyzer::Liveness::kExited
                                                                     : analyzer::Liveness::kAlive;
    }
    return analyzer::dead_how(process.header);
}

}  // namespace

Result<RankView> look_at_ring(const NodeProcess& process, ImageBuffer& memory) {
    const Result<OwnedFile> file = OwnedFile::open(process.directory, process.ring_name, OwnedFile::For::kReading);
    if (!file) {
        return file.error();
    }
    const Result<size_t> read_bytes = read_newest(*file, memory);
    if (!read_bytes) {
        return read_bytes.error().within(process.ring_path());
    }
    Result<format::RingImage> image = format::RingImage::open(memory.bytes(), heads_now(*file));
    if (!image) {
        return image.error().within(process.ring_path());
    }
    analyzer::OpenedSource opened;
    opened.image = *image;
    opened.source.is_ring = true;
    opened.source.path = process.ring_path();
    opened.source.label = process.ring_name;
    opened.liveness = liveness_of(process);
    opened.now_ticks = image->clock().ticks_now();
    RankView rank;
    rank.process = analyzer::decode_process(opened);
    rank.read_bytes = *read_bytes;
    read_steps(*image, rank.process.now_ns, rank);
    return rank;
}

}  // namespace titan::tools
