// The bytes of one dump, in memory that the caller brings: its description, the ring, the stacks. cold; no heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dump_files.h"
#include "dump_meta.h"

namespace titan::tracer {

struct DumpContent {
    DumpMeta meta;
    const char* image;
    uint64_t image_bytes;
    std::span<const char> stacks;
};

// Memory to work in: section_workspace_bytes() of formats/container/dump_writer.h, and kMetaBytes.
struct DumpRoom {
    char* workspace;
    size_t workspace_bytes;
    char* meta;
};

// Writes the content, under that number, and gives the file its name. False, with errno.
bool write_dump_file(DumpFile& file, DumpContent& content, const DumpRoom& room, uint64_t number, uint32_t keep,
                     const EvidenceNumbers& evidence);

}  // namespace titan::tracer
