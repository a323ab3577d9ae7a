// Memory for one ring image after the other. Rings are mostly empty, so the memory is zero pages of the kernel until it
// is written, and only what was written is cleared for the next image: 1,000 dumps cost the bytes they carry, not
// 1,000 times the size of a ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace titan {

class ImageBuffer {
  public:
    ImageBuffer() = default;
    ~ImageBuffer();
    ImageBuffer(const ImageBuffer&) = delete;
    ImageBuffer& operator=(const ImageBuffer&) = delete;

    // All zero, `size_bytes` long. False when the kernel refuses the address space.
    bool reset(size_t size_bytes);
    // The same bytes, followed by zeros. Never shrinks.
    bool grow(size_t size_bytes);
    // A place to write; the caller has checked that it lies inside the size of reset().
    std::byte* write_at(size_t offset_bytes, size_t size_bytes);
    // Zeros the range. Memory that was never written costs nothing.
    void clear_at(size_t offset_bytes, size_t size_bytes);
    std::span<const std::byte> bytes() const { return {memory_, size_bytes_}; }

  private:
    std::byte* memory_ = nullptr;
    size_t mapped_bytes_ = 0;
    size_t size_bytes_ = 0;
    std::vector<std::pair<size_t, size_t>> written_;  // offset, size
};

}  // namespace titan
