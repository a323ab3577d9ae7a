#include "formats/container/digest_file.h"

#include <zstd.h>

#include "section_file.h"

namespace titan::format {
namespace {

constexpr int kLevel = 9;

constexpr FileKind kDigests{"digest", kDigestMagic, kDigestMajor, kDigestMinor, kMaxDigestSections};

// Seals the header with its checksum and appends it.
template <typename Header>
void append(std::vector<std::byte>& file, Header header) {
    const auto bytes = std::as_bytes(std::span(&header, 1));
    header.check = checksum(bytes.first(offsetof(Header, check)));
    file.insert(file.end(), bytes.begin(), bytes.end());
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
    const Result<size_t> start = check_file_header(file, kDigests);
    if (!start) {
        return start.error();
    }
    const Context context(ZSTD_createDCtx());
    if (context == nullptr) {
        return Error("out of memory");
    }
    SectionList list = list_sections(file, *start, kDigests);
    std::vector<std::string> problems;
    std::vector<std::byte> raw;
    for (const Section& section : list.sections) {
        const auto kind = static_cast<DigestSection>(section.header.kind);
        if (kind != DigestSection::kProblems && kind != DigestSection::kProcess && kind != DigestSection::kGroups) {
            continue;
        }
        const std::string problem = unpack(context.get(), section, kMaxDigestSectionBytes, raw);
        if (problem.empty()) {
            visit(kind, raw);
        } else {
            problems.push_back(in_section(section.number, problem));
        }
    }
    problems.insert(problems.end(), list.problems.begin(), list.problems.end());
    return problems;
}

}  // namespace titan::format
