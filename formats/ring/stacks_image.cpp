#include "formats/ring/stacks_image.h"

#include <algorithm>

namespace titan::format {

Result<StacksImage> StacksImage::open(std::span<const std::byte> bytes) {
    StacksHeader header{};
    if (bytes.size() < sizeof(header)) {
        return Error("stacks: cut off before the end of their header");
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.magic != kStacksMagic) {
        return Error("stacks: not what this section holds (wrong magic number)");
    }
    if (header.major != kStacksMajor) {
        return Error("stacks: format " + std::to_string(header.major) + " is not the " + std::to_string(kStacksMajor) +
                     " that this titan-analyze reads");
    }
    return StacksImage(bytes, header);
}

uint64_t StacksImage::available(StackTable which, uint64_t first, uint64_t count) const {
    const StackTableDescriptor& of = table(which);
    if (of.stride_bytes == 0 || of.offset_bytes > bytes_.size()) {
        return 0;
    }
    const uint64_t rows = std::min<uint64_t>(of.count, (bytes_.size() - of.offset_bytes) / of.stride_bytes);
    return first >= rows ? 0 : std::min(count, rows - first);
}

std::vector<uint64_t> StacksImage::frames(const StackThread& thread) const {
    std::vector<uint64_t> addresses;
    for (const StackFrame& frame : rows<StackFrame>(StackTable::kFrames, thread.first_frame, thread.frame_count)) {
        addresses.push_back(frame.address);
    }
    return addresses;
}

std::string_view StacksImage::text(uint32_t offset) const {
    const uint64_t left = offset == 0 || table(StackTable::kTexts).stride_bytes != 1
                              ? 0
                              : available(StackTable::kTexts, offset, UINT64_MAX);
    if (left == 0) {
        return {};
    }
    const char* const begin =
        reinterpret_cast<const char*>(bytes_.data()) + table(StackTable::kTexts).offset_bytes + offset;
    return {begin, strnlen(begin, left)};
}

}  // namespace titan::format
