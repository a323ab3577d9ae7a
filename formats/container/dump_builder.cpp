#include "formats/container/dump_builder.h"

#include "formats/container/dump_writer.h"

namespace titan::format {

Result<std::vector<std::byte>> build_dump(std::span<const std::byte> image, std::string_view meta_json) {
    std::vector<std::byte> file;
    const auto append = [](void* context, const void* bytes, size_t size_bytes) {
        const auto* const begin = static_cast<const std::byte*>(bytes);
        auto& out = *static_cast<std::vector<std::byte>*>(context);
        out.insert(out.end(), begin, begin + size_bytes);
        return true;
    };
    std::vector<uint64_t> workspace(section_workspace_bytes() / sizeof(uint64_t) + 1);
    DumpWriter writer(workspace.data(), workspace.size() * sizeof(uint64_t), append, &file);
    if (!writer.begin() || !writer.add_meta(meta_json.data(), meta_json.size()) ||
        !writer.add_ring(image.data(), image.size()) || !writer.finish()) {
        return Error("cannot be compressed");
    }
    return file;
}

}  // namespace titan::format
