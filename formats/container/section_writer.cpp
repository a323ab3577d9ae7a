#define ZSTD_STATIC_LINKING_ONLY  // needed for ZSTD_initStaticCCtx: a compressor that never allocates
#include "formats/container/section_writer.h"

#include <zstd.h>

#include "base/hash.h"

namespace titan::format {
namespace {

constexpr int kCompressionLevel = 3;

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t compressor_bytes() { return aligned(ZSTD_estimateCCtxSize(kCompressionLevel)); }

template <typename Header>
uint64_t check_of(const Header& header) {
    return fnv1a64(reinterpret_cast<const unsigned char*>(&header), offsetof(Header, check));
}

}  // namespace

size_t section_workspace_bytes() { return compressor_bytes() + ZSTD_compressBound(kMaxSectionRawBytes); }

DumpHeader make_file_header(uint64_t magic, uint16_t major, uint16_t minor) {
    DumpHeader header{magic, major, minor, sizeof(DumpHeader), 0, 0};
    header.check = check_of(header);
    return header;
}

SectionWriter::SectionWriter(void* workspace, size_t workspace_bytes, SectionSink sink, void* context)
    : context_(context), sink_(sink) {
    if (workspace == nullptr || workspace_bytes < section_workspace_bytes()) {
        return;
    }
    compressor_ = ZSTD_initStaticCCtx(workspace, compressor_bytes());
    frame_ = static_cast<unsigned char*>(workspace) + compressor_bytes();
    frame_bytes_ = workspace_bytes - compressor_bytes();
    good_ = compressor_ != nullptr &&
            ZSTD_isError(ZSTD_CCtx_setParameter(compressor_, ZSTD_c_compressionLevel, kCompressionLevel)) == 0 &&
            ZSTD_isError(ZSTD_CCtx_setParameter(compressor_, ZSTD_c_checksumFlag, 1)) == 0;
}

bool SectionWriter::begin(uint64_t magic, uint16_t major, uint16_t minor) {
    const DumpHeader header = make_file_header(magic, major, minor);
    return put(&header, sizeof(header));
}

bool SectionWriter::add(SectionKind kind, const void* raw, size_t raw_bytes, uint64_t offset_bytes) {
    if (!good_ || raw_bytes > kMaxSectionRawBytes) {
        return good_ = false;
    }
    const size_t stored_bytes = ZSTD_compress2(compressor_, frame_, frame_bytes_, raw, raw_bytes);
    if (ZSTD_isError(stored_bytes) != 0) {
        return good_ = false;
    }
    SectionHeader header{kind, stored_check_of(frame_, stored_bytes), stored_bytes, raw_bytes, offset_bytes, 0};
    header.check = check_of(header);
    return put(&header, sizeof(header)) && put(frame_, stored_bytes);
}

bool SectionWriter::finish() {
    SectionHeader header{SectionKind::kEnd, stored_check_of(nullptr, 0), 0, 0, 0, 0};
    header.check = check_of(header);
    return put(&header, sizeof(header));
}

bool SectionWriter::put(const void* bytes, size_t size_bytes) {
    good_ = good_ && sink_(context_, bytes, size_bytes);
    written_bytes_ += good_ ? size_bytes : 0;
    return good_;
}

}  // namespace titan::format
