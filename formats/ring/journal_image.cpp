#include "formats/ring/journal_image.h"

#include <cstring>

namespace titan::format {
namespace {

class ImageWriter {
  public:
    explicit ImageWriter(std::vector<std::byte>& memory) : memory_(memory) { memory_.assign(sizeof(RingHeader), {}); }

    // In a ring, the first row lies in slot `first` of as many as there are rows.
    template <typename T>
    void add(RingHeader& header, RegionKind kind, const T* rows, size_t count, uint64_t head, size_t first = 0) {
        const uint64_t offset_bytes = (memory_.size() + 7) / 8 * 8;
        memory_.resize(offset_bytes + count * sizeof(T));
        if (count != 0) {
            std::memcpy(memory_.data() + offset_bytes + first * sizeof(T), rows, (count - first) * sizeof(T));
            std::memcpy(memory_.data() + offset_bytes, rows + (count - first), first * sizeof(T));
        }
        header.regions[header.region_count] = {kind, sizeof(T), offset_bytes, count, 0};
        header.cursors[header.region_count++].head = head;
    }

  private:
    std::vector<std::byte>& memory_;
};

}  // namespace

Result<RingImage> image_of(const MarkerBlock& block, std::vector<std::byte>& memory) {
    RingHeader header = block.header;
    header.region_count = 0;
    std::memset(&header.regions, 0, sizeof(header.regions));
    std::memset(&header.more_regions, 0, sizeof(header.more_regions));
    std::memset(&header.cursors, 0, sizeof(header.cursors));

    const size_t count = block.markers.size();
    std::vector<StringRecord> index;
    std::string heap;
    for (const std::string& text : block.texts) {
        index.push_back({1, static_cast<uint32_t>(heap.size()), static_cast<uint32_t>(text.size() + 1)});
        heap += text;
    }
    ImageWriter image(memory);
    image.add(header, RegionKind::kMarkers, block.markers.data(), count, block.first_ticket + count,
              count == 0 ? 0 : block.first_ticket % count);
    image.add(header, RegionKind::kStringIndex, index.data(), index.size(), index.size());
    image.add(header, RegionKind::kStringHeap, heap.data(), heap.size(), heap.size());
    image.add(header, RegionKind::kMarkerSites, block.sites.data(), block.sites.size(), block.sites.size());
    header.file_bytes = memory.size();
    std::memcpy(memory.data(), &header, sizeof(header));
    return RingImage::open(memory);
}

}  // namespace titan::format
