#define ZSTD_STATIC_LINKING_ONLY  // needed for ZSTD_initStaticCCtx: a compressor that never allocates
#include "formats/container/dump_writer.h"

#include <string.h>
#include <zstd.h>

#include "base/hash.h"
#include "base/page.h"

namespace titan::format {
namespace {

static_assert(kMaxSectionRawBytes % kPageBytes == 0);

bool all_zero(const char* bytes, uint64_t size_bytes) {
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t compressor_bytes() { return aligned(ZSTD_estimateCCtxSize(kDumpCompressionLevel)); }

template <typename Header>
uint64_t check_of(const Header& header) {
    return fnv1a64(reinterpret_cast<const unsigned char*>(&header), offsetof(Header, check));
}

}  // namespace

size_t dump_workspace_bytes() { return compressor_bytes() + ZSTD_compressBound(kMaxSectionRawBytes); }

DumpWriter::DumpWriter(void* workspace, size_t workspace_bytes, DumpSink sink, void* context)
    : context_(context), sink_(sink) {
    if (workspace == nullptr || workspace_bytes < dump_workspace_bytes()) {
        return;
    }
    compressor_ = ZSTD_initStaticCCtx(workspace, compressor_bytes());
    frame_ = static_cast<unsigned char*>(workspace) + compressor_bytes();
    frame_bytes_ = workspace_bytes - compressor_bytes();
    good_ = compressor_ != nullptr &&
            ZSTD_isError(ZSTD_CCtx_setParameter(compressor_, ZSTD_c_compressionLevel, kDumpCompressionLevel)) == 0 &&
            ZSTD_isError(ZSTD_CCtx_setParameter(compressor_, ZSTD_c_checksumFlag, 1)) == 0;
}

bool DumpWriter::begin() {
    DumpHeader header{kDumpMagic, kDumpMajor, kDumpMinor, sizeof(DumpHeader), 0, 0};
    header.check = check_of(header);
    return put(&header, sizeof(header));
}

bool DumpWriter::add_meta(const char* json, size_t size_bytes) {
    return add_section(SectionKind::kMeta, json, size_bytes, 0);
}

bool DumpWriter::add_ring(const void* image, uint64_t size_bytes) {
    return add_image(SectionKind::kRing, image, size_bytes);
}

bool DumpWriter::add_stacks(const void* image, uint64_t size_bytes) {
    return add_image(SectionKind::kStacks, image, size_bytes);
}

// An image is mostly zeros until it has filled up, and a reader fills gaps with zeros: only the rest is stored.
bool DumpWriter::add_image(SectionKind kind, const void* image, uint64_t size_bytes) {
    const char* const bytes = static_cast<const char*>(image);
    const auto page_bytes = [&](uint64_t at) { return size_bytes - at < kPageBytes ? size_bytes - at : kPageBytes; };
    for (uint64_t begin = 0; good_ && begin < size_bytes;) {
        uint64_t end = begin;
        while (end < size_bytes && end - begin < kMaxSectionRawBytes && !all_zero(bytes + end, page_bytes(end))) {
            end += page_bytes(end);
        }
        if (end == begin) {
            begin += page_bytes(begin);
            continue;
        }
        add_section(kind, bytes + begin, end - begin, begin);
        begin = end;
    }
    return good_;
}

bool DumpWriter::finish() {
    SectionHeader header{SectionKind::kEnd, stored_check_of(nullptr, 0), 0, 0, 0, 0};
    header.check = check_of(header);
    return put(&header, sizeof(header));
}

bool DumpWriter::put(const void* bytes, size_t size_bytes) {
    good_ = good_ && sink_(context_, bytes, size_bytes);
    written_bytes_ += good_ ? size_bytes : 0;
    return good_;
}

bool DumpWriter::add_section(SectionKind kind, const void* raw, size_t raw_bytes, uint64_t offset_bytes) {
    if (!good_ || raw_bytes > kMaxSectionRawBytes) {
        return good_ = false;
    }
    size_t stored_bytes = ZSTD_compress2(compressor_, frame_, frame_bytes_, raw, raw_bytes);
    if (ZSTD_isError(stored_bytes) != 0) {
        return good_ = false;
    }
    SectionHeader header{kind, stored_check_of(frame_, stored_bytes), stored_bytes, raw_bytes, offset_bytes, 0};
    header.check = check_of(header);
    return put(&header, sizeof(header)) && put(frame_, stored_bytes);
}

}  // namespace titan::format
