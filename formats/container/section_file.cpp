#include "section_file.h"

#include <zstd_errors.h>

#include <algorithm>

#include "base/hash.h"

namespace titan::format {

namespace {

bool is_text(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) {
        const auto c = std::to_integer<unsigned char>(byte);
        return c >= ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\033';
    });
}

}  // namespace

uint64_t checksum(std::span<const std::byte> bytes) { return fnv1a64(bytes.data(), bytes.size()); }

Result<size_t> check_file_header(std::span<const std::byte> file, const FileKind& kind) {
    const std::string name = kind.name;
    if (file.empty()) {
        return Error("empty file: the disk was full or the job was killed while it was created");
    }
    if (is_text(file.first(std::min<size_t>(file.size(), 256)))) {
        return Error("a text, no titantrace " + name +
                     "; texts are read where they are logs of torchrun, Slurm, mpirun, NCCL or PyTorch's "
                     "watchdog that tell of a rank");
    }
    if (file.size() < sizeof(DumpHeader)) {
        return Error("truncated: " + std::to_string(file.size()) + " bytes, less than the file header");
    }
    const auto header = copy_from<DumpHeader>(file);
    const auto version = [](uint16_t major, uint16_t minor) {
        return std::to_string(major) + "." + std::to_string(minor);
    };
    if (header.magic == __builtin_bswap64(kind.magic)) {
        return Error("a " + name + " written on a machine of the other byte order");
    }
    if (header.magic != kind.magic) {
        return Error("not a titantrace " + name + " (wrong magic number)");
    }
    if (header.major != kind.major) {
        return Error(name + " format " + version(header.major, header.minor) + " is not the " +
                     version(kind.major, kind.minor) +
                     " that this titan-analyze reads; use the titan-analyze of the titantrace release that wrote it");
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

std::string header_problem(const SectionHeader& header, uint64_t available_bytes) {
    if (header.check != checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(SectionHeader, check)))) {
        return "bad header checksum: the file is damaged from here on";
    }
    if (header.stored_bytes > available_bytes) {
        return "cut off: " + std::to_string(available_bytes) + " of " + std::to_string(header.stored_bytes) +
               " bytes: the file is truncated";
    }
    return {};
}

SectionList list_sections(std::span<const std::byte> file, size_t offset, const FileKind& kind) {
    SectionList list;
    for (uint32_t number = 1; number <= kind.max_sections; ++number) {
        if (kind.grows && offset == file.size()) {
            return list;
        }
        if (file.size() - offset < sizeof(SectionHeader)) {
            list.problems.push_back(in_section(number, "missing: the file is truncated"));
            return list;
        }
        const auto bytes = file.subspan(offset);
        Section section{copy_from<SectionHeader>(bytes), {}, number};
        if (const std::string problem = header_problem(section.header, bytes.size() - sizeof(SectionHeader));
            !problem.empty()) {
            list.problems.push_back(in_section(number, problem));
            return list;
        }
        if (section.header.kind == SectionKind::kEnd) {
            return list;
        }
        section.stored = bytes.subspan(sizeof(SectionHeader), section.header.stored_bytes);
        list.sections.push_back(section);
        offset += sizeof(SectionHeader) + section.header.stored_bytes;
    }
    list.problems.push_back("more than " + std::to_string(kind.max_sections) + " sections: the rest is ignored");
    return list;
}

std::string implausible(const Section& section, uint64_t limit_bytes) {
    if (section.header.stored_check != static_cast<uint32_t>(checksum(section.stored))) {
        return "bad checksum: the file is damaged";
    }
    return impossible(section, limit_bytes);
}

std::string impossible(const Section& section, uint64_t limit_bytes) {
    const SectionHeader& header = section.header;
    if (header.raw_bytes > limit_bytes || header.offset_bytes > limit_bytes - header.raw_bytes) {
        return "claims " + std::to_string(header.raw_bytes) + " bytes at offset " +
               std::to_string(header.offset_bytes) + ", over the limit of " + std::to_string(limit_bytes);
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

std::string unpack(ZSTD_DCtx* context, const Section& section, uint64_t limit_bytes, std::vector<std::byte>& raw) {
    std::string problem = implausible(section, limit_bytes);
    if (problem.empty()) {
        raw.resize(section.header.raw_bytes);
        problem = unpack(context, section, raw.data());
    }
    return problem;
}

bool unpack_beginning(ZSTD_DCtx* context, std::span<const std::byte> stored, void* into, size_t size_bytes) {
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_outBuffer out{into, size_bytes, 0};
    ZSTD_inBuffer in{stored.data(), stored.size(), 0};
    while (out.pos < out.size) {
        const size_t before = in.pos + out.pos;
        if (ZSTD_isError(ZSTD_decompressStream(context, &out, &in)) != 0 || in.pos + out.pos == before) {
            return false;
        }
    }
    return true;
}

}  // namespace titan::format
