// Writes the common structure of dumps and journals, anywhere: no allocation, no errno, no file. The caller brings
// memory to work in and a sink for the bytes. Used inside the traced job, possibly while it holds its heap lock, and by
// the tools.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/dump_layout.h"

struct ZSTD_CCtx_s;  // zstd's compressor

namespace titan::format {

// One section holds at most this much before compression: that bounds the workspace.
inline constexpr size_t kMaxSectionRawBytes = 1 << 20;

// Takes all bytes or returns false; after false the writer gives up.
using SectionSink = bool (*)(void* context, const void* bytes, size_t size_bytes);

// Size of the workspace that SectionWriter needs, aligned to 8.
size_t section_workspace_bytes();

DumpHeader make_file_header(uint64_t magic, uint16_t major, uint16_t minor);

// Each function returns false once something failed.
class SectionWriter {
  public:
    SectionWriter(void* workspace, size_t workspace_bytes, SectionSink sink, void* context);

    bool begin(uint64_t magic, uint16_t major, uint16_t minor);
    bool add(SectionKind kind, const void* raw, size_t raw_bytes, uint64_t offset_bytes);
    bool finish();

    bool good() const { return good_; }
    uint64_t written_bytes() const { return written_bytes_; }

  private:
    bool put(const void* bytes, size_t size_bytes);

    void* context_;
    SectionSink sink_;
    ZSTD_CCtx_s* compressor_ = nullptr;
    unsigned char* frame_ = nullptr;
    size_t frame_bytes_ = 0;
    uint64_t written_bytes_ = 0;
    bool good_ = false;
};

}  // namespace titan::format
