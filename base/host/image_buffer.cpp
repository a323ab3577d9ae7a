#include "host/image_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace titan {

namespace {
// Clearing more than this by hand is slower than giving the pages back.
constexpr size_t kClearByHandBytes = size_t{8} << 20;
}  // namespace

ImageBuffer::~ImageBuffer() {
    if (memory_ != nullptr) {
        munmap(memory_, mapped_bytes_);
    }
}

bool ImageBuffer::reset(size_t size_bytes) {
    for (const auto& [offset, size] : written_) {
        if (size > kClearByHandBytes) {
            madvise(memory_, mapped_bytes_, MADV_DONTNEED);
            break;
        }
        std::memset(memory_ + offset, 0, size);
    }
    written_.clear();
    size_bytes_ = 0;
    if (size_bytes > mapped_bytes_) {
        if (memory_ != nullptr) {
            munmap(memory_, mapped_bytes_);
        }
        mapped_bytes_ = 0;
        memory_ = nullptr;
        void* grown =
            mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (grown == MAP_FAILED) {
            return false;
        }
        memory_ = static_cast<std::byte*>(grown);
        mapped_bytes_ = size_bytes;
    }
    size_bytes_ = size_bytes;
    return true;
}

bool ImageBuffer::grow(size_t size_bytes) {
    if (size_bytes > mapped_bytes_) {
        void* moved = memory_ == nullptr ? MAP_FAILED : mremap(memory_, mapped_bytes_, size_bytes, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) {
            return false;
        }
        memory_ = static_cast<std::byte*>(moved);
        mapped_bytes_ = size_bytes;
    }
    size_bytes_ = size_bytes_ > size_bytes ? size_bytes_ : size_bytes;
    return true;
}

std::byte* ImageBuffer::write_at(size_t offset_bytes, size_t size_bytes) {
    written_.emplace_back(offset_bytes, size_bytes);
    return memory_ + offset_bytes;
}

void ImageBuffer::clear_at(size_t offset_bytes, size_t size_bytes) {
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t end = offset_bytes + size_bytes;
    const size_t first_page = (offset_bytes + page_bytes - 1) / page_bytes * page_bytes;
    const size_t last_page = end / page_bytes * page_bytes;
    if (size_bytes <= kClearByHandBytes || madvise(memory_ + first_page, last_page - first_page, MADV_DONTNEED) != 0) {
        std::memset(memory_ + offset_bytes, 0, size_bytes);
        return;
    }
    std::memset(memory_ + offset_bytes, 0, first_page - offset_bytes);
    std::memset(memory_ + last_page, 0, end - last_page);
}

}  // namespace titan
