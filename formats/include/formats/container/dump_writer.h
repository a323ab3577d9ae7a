// Writes the dump container of dump_layout.h (section_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/container/section_writer.h"

namespace titan::format {

class DumpWriter {
  public:
    DumpWriter(void* workspace, size_t workspace_bytes, SectionSink sink, void* context)
        : sections_(workspace, workspace_bytes, sink, context) {}

    // Call in this order; each returns false once something failed. A dump without finish() reads as truncated.
    bool begin() { return sections_.begin(kDumpMagic, kDumpMajor, kDumpMinor); }
    bool add_meta(const char* json, size_t size_bytes) {  // at most kMaxSectionRawBytes
        return sections_.add(SectionKind::kMeta, json, size_bytes, 0);
    }
    bool add_ring(const void* image, uint64_t size_bytes) { return add_image(SectionKind::kRing, image, size_bytes); }
    // stacks_layout.h; optional
    bool add_stacks(const void* image, uint64_t size_bytes) {
        return add_image(SectionKind::kStacks, image, size_bytes);
    }
    bool finish() { return sections_.finish(); }

    uint64_t written_bytes() const { return sections_.written_bytes(); }

  private:
    bool add_image(SectionKind kind, const void* image, uint64_t size_bytes);

    SectionWriter sections_;
};

}  // namespace titan::format
