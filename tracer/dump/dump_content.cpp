#include "dump_content.h"

#include <errno.h>

#include "formats/container/dump_writer.h"

namespace titan::tracer {

bool write_dump_file(DumpFile& file, DumpContent& content, const DumpRoom& room, uint64_t number, uint32_t keep,
                     const EvidenceNumbers& evidence) {
    content.meta.number = number;
    auto sink = [](void* context, const void* bytes, size_t size_bytes) {
        return static_cast<DumpFile*>(context)->write(bytes, size_bytes);
    };
    format::DumpWriter writer(room.workspace, room.workspace_bytes, sink, &file);
    const size_t meta_bytes = write_meta(room.meta, kMetaBytes, content.meta);
    const bool written = writer.begin() && writer.add_meta(room.meta, meta_bytes) &&
                         writer.add_ring(content.image, content.image_bytes) &&
                         (content.stacks.empty() || writer.add_stacks(content.stacks.data(), content.stacks.size())) &&
                         writer.finish();
    if (!written) {
        errno = file.error_number() != 0 ? file.error_number() : EIO;
        return false;
    }
    return file.commit(number, keep, evidence);
}

}  // namespace titan::tracer
