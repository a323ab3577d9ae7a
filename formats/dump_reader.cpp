#include "formats/dump_reader.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "formats/ring_layout.h"

namespace titan::format {
namespace {

struct Section {
    SectionHeader header{};
    std::span<const std::byte> stored;
    uint32_t number = 0;  // from 1, for people
};

struct SectionList {
    std::vector<Section> sections;
    std::vector<std::string> problems;
};

struct FreeContext {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using Context = std::unique_ptr<ZSTD_DCtx, FreeContext>;

template <typename T>
T copy_from(std::span<const std::byte> bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

uint64_t checksum(std::span<const std::byte> bytes) {
    return fnv1a64(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::string newer_version(const DumpHeader& header) {
    return "dump format " + std::to_string(header.major) + "." + std::to_string(header.minor) + " is newer than the " +
           std::to_string(kDumpMajor) + "." + std::to_string(kDumpMinor) +
           " that this titan-analyze reads; use the titan-analyze of the titantrace release that wrote it";
}

// The size of the header, or why this is no dump that we can read.
Result<size_t> check_file_header(std::span<const std::byte> file) {
    if (file.empty()) {
        return Error("empty file: the disk was full or the job was killed while it was created");
    }
    if (file.size() < sizeof(DumpHeader)) {
        return Error("truncated: " + std::to_string(file.size()) + " bytes, less than the file header");
    }
    const auto header = copy_from<DumpHeader>(file, 0);
    if (header.magic == __builtin_bswap64(kDumpMagic)) {
        return Error("a dump written on a machine of the other byte order");
    }
    if (header.magic != kDumpMagic) {
        return Error("not a titantrace dump (wrong magic number)");
    }
    if (header.major > kDumpMajor) {
        return Error(newer_version(header));
    }
    if (header.check != checksum(file.first(offsetof(DumpHeader, check)))) {
        return Error("file header: bad checksum: the file is damaged");
    }
    if (header.header_bytes < sizeof(DumpHeader) || header.header_bytes > file.size()) {
        return Error("file header: impossible size " + std::to_string(header.header_bytes));
    }
    return static_cast<size_t>(header.header_bytes);
}

std::string in_section(uint32_t number, const std::string& what) {
    return "section " + std::to_string(number) + ": " + what;
}

// Walks the section headers; stops at the first that cannot be trusted, because the next one's place depends on it.
SectionList list_sections(std::span<const std::byte> file, size_t offset) {
    SectionList list;
    for (uint32_t number = 1; number <= kMaxSections; ++number) {
        if (file.size() - offset < sizeof(SectionHeader)) {
            list.problems.push_back(in_section(number, "missing: the file is truncated"));
            return list;
        }
        const auto bytes = file.subspan(offset);
        Section section{copy_from<SectionHeader>(bytes, 0), {}, number};
        if (section.header.check != checksum(bytes.first(offsetof(SectionHeader, check)))) {
            list.problems.push_back(in_section(number, "bad header checksum: the file is damaged from here on"));
            return list;
        }
        if (section.header.kind == SectionKind::kEnd) {
            return list;
        }
        const uint64_t available = bytes.size() - sizeof(SectionHeader);
        if (section.header.stored_bytes > available) {
            list.problems.push_back(in_section(number, "cut off: " + std::to_string(available) + " of " +
                                                           std::to_string(section.header.stored_bytes) +
                                                           " bytes: the file is truncated"));
            return list;
        }
        section.stored = bytes.subspan(sizeof(SectionHeader), section.header.stored_bytes);
        list.sections.push_back(section);
        offset += sizeof(SectionHeader) + section.header.stored_bytes;
    }
    list.problems.push_back("more than " + std::to_string(kMaxSections) + " sections: the rest is ignored");
    return list;
}

uint64_t limit_of(const SectionHeader& header) {
    switch (header.kind) {
        case SectionKind::kMeta: return kMaxMetaBytes;
        case SectionKind::kStacks: return kMaxStacksBytes;
        default: return kMaxImageBytes;
    }
}

// Why the sizes that a section claims cannot be, or an empty string.
std::string implausible(const Section& section) {
    const SectionHeader& header = section.header;
    if (header.stored_check != static_cast<uint32_t>(checksum(section.stored))) {
        return "bad checksum: the file is damaged";
    }
    const uint64_t limit = limit_of(header);
    if (header.raw_bytes > limit || header.offset_bytes > limit - header.raw_bytes) {
        return "claims " + std::to_string(header.raw_bytes) + " bytes at offset " +
               std::to_string(header.offset_bytes) + ", over the limit of " + std::to_string(limit);
    }
    const auto framed = ZSTD_getFrameContentSize(section.stored.data(), section.stored.size());
    if (framed == ZSTD_CONTENTSIZE_ERROR) {
        return "not a zstd frame: the file is damaged";
    }
    if (framed != ZSTD_CONTENTSIZE_UNKNOWN && framed != header.raw_bytes) {
        return "claims " + std::to_string(header.raw_bytes) + " bytes, its zstd frame has " + std::to_string(framed);
    }
    return {};
}

std::string unpack(ZSTD_DCtx* context, const Section& section, std::byte* into) {
    const size_t got =
        ZSTD_decompressDCtx(context, into, section.header.raw_bytes, section.stored.data(), section.stored.size());
    if (ZSTD_isError(got) != 0) {
        const bool checksum_wrong = ZSTD_getErrorCode(got) == ZSTD_error_checksum_wrong;
        return checksum_wrong ? "bad checksum: the file is damaged"
                              : std::string("cannot be unpacked (") + ZSTD_getErrorName(got) + "): the file is damaged";
    }
    if (got != section.header.raw_bytes) {
        return "unpacks to " + std::to_string(got) + " bytes instead of " + std::to_string(section.header.raw_bytes);
    }
    return {};
}

// Most of a ring is zero, and all zero sections of one size pack to the same few bytes. They are unpacked once, into the
// cache of the processor, and then known: their place in the image is zero already and stays an untouched page.
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
        const auto header = copy_from<RingHeader>(image.bytes(), 0);
        if (header.file_bytes > image.bytes().size() && header.file_bytes <= kMaxImageBytes) {
            image.grow(header.file_bytes);
        }
    }
}

// Problems of a section come before the problem of where the file ends.
void keep_plausible(SectionList& list) {
    std::vector<std::string> problems;
    std::erase_if(list.sections, [&](const Section& section) {
        const SectionKind kind = section.header.kind;
        const bool known = kind == SectionKind::kMeta || kind == SectionKind::kRing || kind == SectionKind::kStacks;
        const std::string problem = known ? implausible(section) : std::string();
        if (!problem.empty()) {
            problems.push_back(in_section(section.number, problem));
        }
        return !known || !problem.empty();
    });
    list.problems.insert(list.problems.begin(), problems.begin(), problems.end());
}

// Unpacks the beginning of a frame, from the beginning of its stored bytes.
bool unpack_beginning(std::span<const std::byte> stored, void* into, size_t size_bytes) {
    const Context context(ZSTD_createDCtx());
    ZSTD_outBuffer out{into, size_bytes, 0};
    ZSTD_inBuffer in{stored.data(), stored.size(), 0};
    while (context != nullptr && out.pos < out.size) {
        const size_t before = in.pos + out.pos;
        if (ZSTD_isError(ZSTD_decompressStream(context.get(), &out, &in)) != 0 || in.pos + out.pos == before) {
            return false;
        }
    }
    return context != nullptr;
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
            if (unpack_beginning(stored, &ring, sizeof(ring)) && ring.magic == kRingMagic) {
                return ring;
            }
            break;
        }
        offset += section.stored_bytes;
    }
    return Error("its header cannot be read");
}

bool is_dump(std::span<const std::byte> file) {
    return file.size() >= sizeof(uint64_t) && copy_from<uint64_t>(file, 0) == kDumpMagic;
}

Result<Dump> read_dump(std::span<const std::byte> file, ImageBuffer& image) {
    const Result<size_t> start = check_file_header(file);
    if (!start) {
        return start.error();
    }
    SectionList list = list_sections(file, *start);
    keep_plausible(list);
    const Context context(ZSTD_createDCtx());
    if (context == nullptr || !image.reset(image_size(list.sections, SectionKind::kRing))) {
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
            const bool fresh = std::none_of(filled.begin(), filled.end(), [&](const auto& range) {
                return header.offset_bytes < range.second && range.first < header.offset_bytes + header.raw_bytes;
            });
            if (fresh && zeros.is_zero(context.get(), section)) {
                ++whole;
                continue;
            }
            filled.emplace_back(header.offset_bytes, header.offset_bytes + header.raw_bytes);
            std::byte* place = image.write_at(header.offset_bytes, header.raw_bytes);
            problem = unpack(context.get(), section, place);
            if (problem.empty()) {
                ++whole;
            } else {
                image.clear_at(header.offset_bytes, header.raw_bytes);
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
    const Result<size_t> start = check_file_header(file);
    if (!start) {
        return start.error();
    }
    SectionList list = list_sections(file, *start);
    const Context context(ZSTD_createDCtx());
    for (const Section& section : list.sections) {
        std::string meta;
        if (section.header.kind == SectionKind::kMeta && implausible(section).empty() && context != nullptr &&
            unpack_meta(context.get(), section, meta).empty()) {
            return meta;
        }
    }
    return Error(list.problems.empty() ? "holds no meta section" : list.problems.front());
}

}  // namespace titan::format
