#include "formats/digest_file.h"

#include <zstd.h>

#include <cstring>
#include <memory>

namespace titan::format {
namespace {

constexpr int kLevel = 9;

struct FreeContext {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

uint64_t checksum(std::span<const std::byte> bytes) {
    return fnv1a64(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

template <typename T>
T copy_from(std::span<const std::byte> bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

// Seals the header with its checksum and appends it.
template <typename Header>
void append(std::vector<std::byte>& file, Header header) {
    const auto bytes = std::as_bytes(std::span(&header, 1));
    header.check = checksum(bytes.first(offsetof(Header, check)));
    file.insert(file.end(), bytes.begin(), bytes.end());
}

std::string version_text(uint16_t major, uint16_t minor) { return std::to_string(major) + "." + std::to_string(minor); }

Result<size_t> check_file_header(std::span<const std::byte> file) {
    if (file.size() < sizeof(DigestHeader)) {
        return Error("truncated: " + std::to_string(file.size()) + " bytes, less than the file header");
    }
    const auto header = copy_from<DigestHeader>(file);
    if (header.magic == kForeignDigestMagic) {
        return Error("a digest written on a machine of the other byte order");
    }
    if (header.magic != kDigestMagic) {
        return Error("not a titantrace digest (wrong magic number)");
    }
    if (header.major > kDigestMajor) {
        return Error("digest format " + version_text(header.major, header.minor) + " is newer than the " +
                     version_text(kDigestMajor, kDigestMinor) +
                     " that this titan-analyze reads; use the titan-analyze that wrote it");
    }
    if (header.check != checksum(file.first(offsetof(DigestHeader, check)))) {
        return Error("file header: bad checksum: the file is damaged");
    }
    if (header.header_bytes < sizeof(DigestHeader) || header.header_bytes > file.size()) {
        return Error("file header: impossible size " + std::to_string(header.header_bytes));
    }
    return static_cast<size_t>(header.header_bytes);
}

// Unpacks into `raw`, or says why not.
std::string unpack(ZSTD_DCtx* context, const SectionHeader& header, std::span<const std::byte> stored,
                   std::vector<std::byte>& raw) {
    if (header.stored_check != static_cast<uint32_t>(checksum(stored))) {
        return "bad checksum: the file is damaged";
    }
    if (header.raw_bytes > kMaxDigestSectionBytes) {
        return "claims " + std::to_string(header.raw_bytes) + " bytes, over the limit of " +
               std::to_string(kMaxDigestSectionBytes);
    }
    const auto framed = ZSTD_getFrameContentSize(stored.data(), stored.size());
    if (framed != header.raw_bytes) {
        return "its zstd frame does not have the " + std::to_string(header.raw_bytes) + " bytes that it claims";
    }
    raw.resize(header.raw_bytes);
    const size_t got = ZSTD_decompressDCtx(context, raw.data(), raw.size(), stored.data(), stored.size());
    if (ZSTD_isError(got) != 0) {
        return std::string("cannot be unpacked (") + ZSTD_getErrorName(got) + "): the file is damaged";
    }
    return got == raw.size() ? std::string() : "unpacks to " + std::to_string(got) + " bytes";
}

}  // namespace

DigestBuilder::DigestBuilder() : compressor_(ZSTD_createCCtx()) {
    if (compressor_ != nullptr) {
        ZSTD_CCtx_setParameter(compressor_, ZSTD_c_compressionLevel, kLevel);
        ZSTD_CCtx_setParameter(compressor_, ZSTD_c_checksumFlag, 1);
    }
    append(file_, DigestHeader{kDigestMagic, kDigestMajor, kDigestMinor, sizeof(DigestHeader), 0, 0});
}

DigestBuilder::~DigestBuilder() { ZSTD_freeCCtx(compressor_); }

bool DigestBuilder::add(DigestSection kind, std::span<const std::byte> raw) {
    if (compressor_ == nullptr || raw.size() > kMaxDigestSectionBytes) {
        return false;
    }
    frame_.resize(ZSTD_compressBound(raw.size()));
    const size_t stored = ZSTD_compress2(compressor_, frame_.data(), frame_.size(), raw.data(), raw.size());
    if (ZSTD_isError(stored) != 0) {
        return false;
    }
    put_section(kind, std::span(frame_).first(stored), raw.size());
    return true;
}

void DigestBuilder::put_section(DigestSection kind, std::span<const std::byte> stored, size_t raw_bytes) {
    SectionHeader header{};
    header.kind = static_cast<SectionKind>(kind);
    header.stored_check = static_cast<uint32_t>(checksum(stored));
    header.stored_bytes = stored.size();
    header.raw_bytes = raw_bytes;
    append(file_, header);
    file_.insert(file_.end(), stored.begin(), stored.end());
}

std::vector<std::byte> DigestBuilder::finish() {
    put_section(DigestSection::kEnd, {}, 0);
    return std::move(file_);
}

bool is_digest(std::span<const std::byte> file) {
    const uint64_t magic = file.size() < sizeof(uint64_t) ? 0 : copy_from<uint64_t>(file);
    return magic == kDigestMagic || magic == kForeignDigestMagic;
}

Result<std::vector<std::string>> read_digest(
    std::span<const std::byte> file, const std::function<void(DigestSection, std::span<const std::byte>)>& visit) {
    const Result<size_t> start = check_file_header(file);
    if (!start) {
        return start.error();
    }
    const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
    if (context == nullptr) {
        return Error("out of memory");
    }
    std::vector<std::string> problems;
    std::vector<std::byte> raw;
    auto rest = file.subspan(*start);
    for (uint32_t number = 1;; ++number) {
        const auto problem = [&](const std::string& what) {
            problems.push_back("section " + std::to_string(number) + ": " + what);
        };
        if (rest.size() < sizeof(SectionHeader)) {
            problem("missing: the file is truncated");
            break;
        }
        const auto header = copy_from<SectionHeader>(rest);
        if (header.check != checksum(rest.first(offsetof(SectionHeader, check)))) {
            problem("bad header checksum: the file is damaged from here on");
            break;
        }
        rest = rest.subspan(sizeof(SectionHeader));
        const auto kind = static_cast<DigestSection>(header.kind);
        if (kind == DigestSection::kEnd) {
            break;
        }
        if (header.stored_bytes > rest.size() || number > kMaxDigestSections) {
            problem("cut off: the file is truncated");
            break;
        }
        if (kind == DigestSection::kProblems || kind == DigestSection::kProcess || kind == DigestSection::kGroups) {
            const std::string why = unpack(context.get(), header, rest.first(header.stored_bytes), raw);
            if (why.empty()) {
                visit(kind, raw);
            } else {
                problem(why);
            }
        }
        rest = rest.subspan(header.stored_bytes);
    }
    return problems;
}

}  // namespace titan::format
