#include "formats/container/dump_reader.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "formats/layout/ring_layout.h"
#include "section_file.h"

namespace titan::format {
namespace {

constexpr FileKind kDumps{"dump", kDumpMagic, kDumpMajor, kDumpMinor, kMaxSections};

uint64_t limit_of(const SectionHeader& header) {
    switch (header.kind) {
        case SectionKind::kMeta: return kMaxMetaBytes;
        case SectionKind::kStacks: return kMaxStacksBytes;
        default: return kMaxImageBytes;
    }
}

// Most of a ring is zero, and all zero sections of one size pack to the same few bytes. They are unpacked once, into
// the cache of the processor, and then known: their place in the image is zero already and stays an untouched page.
class ZeroSections {
  public:
    bool is_zero(ZSTD_DCtx* context, const Section& section) {
        if (section.stored.size() > kMaxStoredBytes || section.header.raw_bytes > kMaxRawBytes) {
            return false;
        }
        const bool known = section.header.raw_bytes == raw_bytes_ &&
                           std::equal(section.stored.begin(), section.stored.end(), stored_.begin(), stored_.end());
        if (known) {
            return true;
        }
        scratch_.resize(section.header.raw_bytes);
        if (!unpack(context, section, scratch_.data()).empty() ||
            std::any_of(scratch_.begin(), scratch_.end(), [](std::byte byte) { return byte != std::byte{0}; })) {
            return false;
        }
        raw_bytes_ = section.header.raw_bytes;
        stored_.assign(section.stored.begin(), section.stored.end());
        return true;
    }

  private:
    static constexpr size_t kMaxStoredBytes = 256;
    static constexpr size_t kMaxRawBytes = size_t{8} << 20;
    uint64_t raw_bytes_ = 0;
    std::vector<std::byte> stored_;
    std::vector<std::byte> scratch_;
};

std::string unpack_meta(ZSTD_DCtx* context, const Section& section, std::string& meta) {
    std::string text(section.header.raw_bytes, '\0');
    std::string problem = unpack(context, section, reinterpret_cast<std::byte*>(text.data()));
    if (problem.empty()) {
        meta = std::move(text);
    }
    return problem;
}

std::string unpack_stacks(ZSTD_DCtx* context, const Section& section, std::vector<std::byte>& stacks) {
    std::byte* const place = stacks.data() + section.header.offset_bytes;
    std::string problem = unpack(context, section, place);
    if (!problem.empty()) {
        std::memset(place, 0, section.header.raw_bytes);
    }
    return problem;
}

uint64_t image_size(const std::vector<Section>& sections, SectionKind kind) {
    uint64_t end = 0;
    for (const Section& section : sections) {
        if (section.header.kind == kind) {
            end = std::max(end, section.header.offset_bytes + section.header.raw_bytes);
        }
    }
    return end;
}

// Sections that the writer left out are zero pages: the image gets the size of the ring, within the limit.
void grow_to_ring_size(ImageBuffer& image) {
    if (image.bytes().size() >= sizeof(RingHeader)) {
        const auto header = copy_from<RingHeader>(image.bytes());
        if (header.file_bytes > image.bytes().size() && header.file_bytes <= kMaxImageBytes) {
            image.grow(header.file_bytes);
        }
    }
}

// --- The frame of a ring (DumpExtent::kFrame).

constexpr bool is_of_frame(RegionKind kind) {
    return kind == RegionKind::kMarkers || (!is_ring(kind) && kind != RegionKind::kLaunchMarks);
}

// From a byte of the image to before another.
using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

// Where the frame lies; everywhere if no header tells.
Ranges frame_of(ZSTD_DCtx* context, const std::vector<Section>& sections) {
    const auto first = std::ranges::find_if(sections, [](const Section& section) {
        return section.header.kind == SectionKind::kRing && section.header.offset_bytes == 0;
    });
    RingHeader ring{};
    if (first == sections.end() || first->header.raw_bytes < sizeof(ring) ||
        !unpack_beginning(context, first->stored, &ring, sizeof(ring)) || ring.magic != kRingMagic) {
        return {{0, UINT64_MAX}};
    }
    Ranges frame = {{0, sizeof(ring)}};
    for_each_region(ring, [&](const RegionDescriptor& region, const RegionCursor*) {
        const uint64_t most = kMaxImageBytes / std::max<uint64_t>(region.stride_bytes, 1);
        if (is_of_frame(region.kind) && region.offset_bytes < kMaxImageBytes) {
            frame.emplace_back(region.offset_bytes,
                               region.offset_bytes + std::min(region.count, most) * region.stride_bytes);
        }
    });
    return frame;
}

// How much of a section is needed, from its beginning on; where there is no frame, everything.
uint64_t needed_bytes(const SectionHeader& section, const Ranges& frame) {
    if (frame.empty() || section.kind == SectionKind::kMeta) {
        return section.raw_bytes;
    }
    const uint64_t begin = section.offset_bytes;
    const uint64_t end = begin + std::min(section.raw_bytes, UINT64_MAX - begin);
    uint64_t needed_end = begin;
    for (const auto& [from, to] : frame) {
        if (section.kind == SectionKind::kRing && from < end && begin < to) {
            needed_end = std::max(needed_end, std::min(to, end));
        }
    }
    return needed_end - begin;
}

// Problems of a section come before the problem of where the file ends.
void keep_plausible(SectionList& list, const Ranges& frame) {
    std::vector<std::string> problems;
    std::erase_if(list.sections, [&](const Section& section) {
        const SectionKind kind = section.header.kind;
        const bool known = kind == SectionKind::kMeta || kind == SectionKind::kRing || kind == SectionKind::kStacks;
        const bool is_whole = needed_bytes(section.header, frame) == section.header.raw_bytes;
        const std::string problem = !known     ? std::string()
                                    : is_whole ? implausible(section, limit_of(section.header))
                                               : impossible(section, limit_of(section.header));
        if (!problem.empty()) {
            problems.push_back(in_section(section.number, problem));
        }
        return !known || !problem.empty();
    });
    list.problems.insert(list.problems.begin(), problems.begin(), problems.end());
}

}  // namespace

Result<RingHeader> read_ring_header(const OpenFile& file) {
    // A block of zstd is at most 128 KiB, stored or not.
    constexpr size_t kEnough = size_t{160} << 10;
    RingHeader ring{};
    if (file.read_at(0, &ring, sizeof(ring)) == sizeof(ring) && ring.magic == kRingMagic) {
        return ring;
    }
    DumpHeader header{};
    if (file.read_at(0, &header, sizeof(header)) != sizeof(header) || header.magic != kDumpMagic) {
        return Error("no dump and no ring");
    }
    uint64_t offset = header.header_bytes;
    for (uint32_t number = 1; number <= kMaxSections; ++number) {
        SectionHeader section{};
        if (offset > file.size_bytes() || file.read_at(offset, &section, sizeof(section)) != sizeof(section) ||
            section.kind == SectionKind::kEnd || section.stored_bytes > file.size_bytes()) {
            break;
        }
        offset += sizeof(section);
        if (section.kind == SectionKind::kRing && section.offset_bytes == 0 && section.raw_bytes >= sizeof(ring)) {
            std::vector<std::byte> stored(std::min<uint64_t>(section.stored_bytes, kEnough));
            stored.resize(file.read_at(offset, stored.data(), stored.size()));
            const Context context(ZSTD_createDCtx());
            if (context != nullptr && unpack_beginning(context.get(), stored, &ring, sizeof(ring)) &&
                ring.magic == kRingMagic) {
                return ring;
            }
            break;
        }
        offset += section.stored_bytes;
    }
    return Error("its header cannot be read");
}

bool is_dump(const std::string& path) {
    uint64_t magic = 0;
    const auto file = OpenFile::open(path);
    return file && file->read_at(0, &magic, sizeof(magic)) == sizeof(magic) && magic == kDumpMagic;
}

Result<Dump> read_dump(std::span<const std::byte> file, ImageBuffer& image, DumpExtent extent) {
    const Result<size_t> start = check_file_header(file, kDumps);
    if (!start) {
        return start.error();
    }
    SectionList list = list_sections(file, *start, kDumps);
    const Context context(ZSTD_createDCtx());
    if (context == nullptr) {
        return Error("out of memory");
    }
    Ranges frame;
    if (extent == DumpExtent::kFrame) {
        frame = frame_of(context.get(), list.sections);
        std::erase_if(list.sections, [&](const Section& section) { return needed_bytes(section.header, frame) == 0; });
    }
    keep_plausible(list, frame);
    if (!image.reset(image_size(list.sections, SectionKind::kRing))) {
        return Error("out of memory");
    }
    Dump dump;
    dump.stacks.resize(image_size(list.sections, SectionKind::kStacks));
    size_t whole = 0;
    ZeroSections zeros;
    std::vector<std::pair<uint64_t, uint64_t>> filled;
    for (const Section& section : list.sections) {
        const SectionHeader& header = section.header;
        std::string problem;
        if (header.kind == SectionKind::kMeta) {
            problem = unpack_meta(context.get(), section, dump.meta_json);
        } else if (header.kind == SectionKind::kStacks) {
            problem = unpack_stacks(context.get(), section, dump.stacks);
        } else {
            // Only the header page may come twice; zeros must not be skipped over something that was written before.
            const bool is_new = std::none_of(filled.begin(), filled.end(), [&](const auto& range) {
                return header.offset_bytes < range.second && range.first < header.offset_bytes + header.raw_bytes;
            });
            if (is_new && zeros.is_zero(context.get(), section)) {
                ++whole;
                continue;
            }
            filled.emplace_back(header.offset_bytes, header.offset_bytes + header.raw_bytes);
            const uint64_t needed = needed_bytes(header, frame);
            std::byte* place = image.write_at(header.offset_bytes, needed);
            problem = needed == header.raw_bytes ? unpack(context.get(), section, place)
                      : unpack_beginning(context.get(), section.stored, place, needed)
                          ? std::string()
                          : "cannot be unpacked: the file is damaged";
            if (problem.empty()) {
                ++whole;
            } else {
                image.clear_at(header.offset_bytes, needed);
            }
        }
        if (!problem.empty()) {
            list.problems.push_back(in_section(section.number, problem));
        }
    }
    dump.problems = std::move(list.problems);
    if (whole == 0) {
        return Error(dump.problems.empty() ? "holds no ring" : dump.problems.front() + "; nothing of it can be used");
    }
    grow_to_ring_size(image);
    return dump;
}

Result<std::string> read_dump_meta(std::span<const std::byte> file) {
    const Result<size_t> start = check_file_header(file, kDumps);
    if (!start) {
        return start.error();
    }
    SectionList list = list_sections(file, *start, kDumps);
    const Context context(ZSTD_createDCtx());
    for (const Section& section : list.sections) {
        std::string meta;
        if (section.header.kind == SectionKind::kMeta && implausible(section, limit_of(section.header)).empty() &&
            context != nullptr && unpack_meta(context.get(), section, meta).empty()) {
            return meta;
        }
    }
    return Error(list.problems.empty() ? "holds no meta section" : list.problems.front());
}

}  // namespace titan::format
