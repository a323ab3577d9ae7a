// Writes the dump container of dump_layout.h, anywhere: no allocation, no errno, no file. The caller brings memory to
// work in and a sink for the bytes. Used inside the traced job, possibly while it holds its heap lock, and by the
// tools.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/dump_layout.h"

struct ZSTD_CCtx_s;  // zstd's compressor

namespace titan::format {

// One section holds at most this much of the ring; bounds the workspace whatever the ring's size.
inline constexpr size_t kMaxSectionRawBytes = 1 << 20;
inline constexpr int kDumpCompressionLevel = 3;

// Takes all bytes or returns false; after false the writer gives up.
using DumpSink = bool (*)(void* context, const void* bytes, size_t size_bytes);

// Size of the workspace that DumpWriter needs, aligned to 8.
size_t dump_workspace_bytes();

class DumpWriter {
  public:
    DumpWriter(void* workspace, size_t workspace_bytes, DumpSink sink, void* context);

    // Call in this order; each returns false once something failed. A dump without finish() reads as truncated.
    bool begin();
    bool add_meta(const char* json, size_t size_bytes);  // at most kMaxSectionRawBytes
    bool add_ring(const void* image, uint64_t size_bytes);
    bool add_stacks(const void* image, uint64_t size_bytes);  // stacks_layout.h; optional
    bool finish();

    uint64_t written_bytes() const { return written_bytes_; }

  private:
    bool put(const void* bytes, size_t size_bytes);
    bool add_image(SectionKind kind, const void* image, uint64_t size_bytes);
    bool add_section(SectionKind kind, const void* raw, size_t raw_bytes, uint64_t offset_bytes);

    void* context_;
    DumpSink sink_;
    ZSTD_CCtx_s* compressor_ = nullptr;
    unsigned char* frame_ = nullptr;
    size_t frame_bytes_ = 0;
    uint64_t written_bytes_ = 0;
    bool good_ = false;
};

}  // namespace titan::format
