#include "formats/ring/call_sites_image.h"

#include <algorithm>

namespace titan::format {

CallSitesImage::CallSitesImage(std::span<const std::byte> region) {
    if (region.size() < sizeof(header_)) {
        return;
    }
    std::memcpy(&header_, region.data(), sizeof(header_));
    if (header_.header_bytes >= sizeof(header_)) {  // else it was never finished
        bytes_ = region;
    }
}

uint64_t CallSitesImage::rows(CallSiteTable which, size_t least_stride_bytes) const {
    const CallSiteTableDescriptor& of = table(which);
    if (of.stride_bytes < least_stride_bytes || of.stride_bytes == 0 || of.offset_bytes > bytes_.size()) {
        return 0;
    }
    return std::min<uint64_t>(of.count, (bytes_.size() - of.offset_bytes) / of.stride_bytes);
}

void CallSitesImage::add_frames(std::vector<Frame>& frames, uint64_t first, uint64_t count) const {
    for (uint64_t i = first; i < first + count; ++i) {
        const auto number = row<CallFrame>(CallSiteTable::kFrames, i);
        if (!number) {
            return;
        }
        const uint32_t place_number = *number & ~kEntryFrame;
        Frame frame{{}, (*number & kEntryFrame) != 0};
        if (const auto place = row<CallPlace>(CallSiteTable::kPlaces, uint64_t{place_number} - 1);
            place_number != 0 && place && place->published != 0) {
            frame.place = *place;
        }
        frames.push_back(frame);
    }
}

std::optional<CallSitesImage::Stack> CallSitesImage::stack(uint32_t number) const {
    const auto record = number == 0 ? std::nullopt : row<CallStackRecord>(CallSiteTable::kStacks, number - 1);
    if (!record || record->published == 0) {
        return std::nullopt;
    }
    Stack stack;
    add_frames(stack.native, record->first_frame, record->native_count);
    add_frames(stack.python, uint64_t{record->first_frame} + record->native_count, record->python_count);
    stack.native_cut = (record->flags & kNativeCut) != 0;
    stack.python_cut = (record->flags & kPythonCut) != 0;
    return stack;
}

std::vector<CallStackRecord> CallSitesImage::stacks() const {
    std::vector<CallStackRecord> all;
    for (uint64_t i = 0; i < rows(CallSiteTable::kStacks, sizeof(CallStackRecord)); ++i) {
        if (const auto record = row<CallStackRecord>(CallSiteTable::kStacks, i); record->published != 0) {
            all.push_back(*record);
        }
    }
    return all;
}

std::vector<StackModule> CallSitesImage::modules() const {
    std::vector<StackModule> all;
    const uint64_t used = std::min(header_.cursors[static_cast<uint32_t>(CallSiteTable::kModules)].head,
                                   rows(CallSiteTable::kModules, sizeof(StackModule)));
    for (uint64_t i = 0; i < used; ++i) {
        all.push_back(*row<StackModule>(CallSiteTable::kModules, i));
    }
    return all;
}

std::string_view CallSitesImage::text(uint32_t id) const {
    if (id == 0) {
        return {};
    }
    const auto record = row<StringRecord>(CallSiteTable::kTextIndex, id - 1);
    const uint64_t heap_bytes =
        table(CallSiteTable::kTextHeap).stride_bytes == 1 ? rows(CallSiteTable::kTextHeap, 1) : 0;
    if (!record || record->length_bytes == 0 || record->offset_bytes > heap_bytes ||
        record->length_bytes - 1 > heap_bytes - record->offset_bytes) {
        return {};
    }
    return {reinterpret_cast<const char*>(bytes_.data()) + table(CallSiteTable::kTextHeap).offset_bytes +
                record->offset_bytes,
            record->length_bytes - 1};
}

}  // namespace titan::format
