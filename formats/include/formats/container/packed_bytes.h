// As Packer of packed.h, into memory that the caller brings. Once that is full, nothing more is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/container/packed_number.h"

namespace titan::format {

class PackedBytes {
  public:
    static constexpr bool kReads = false;

    PackedBytes(unsigned char* bytes, size_t capacity_bytes) : bytes_(bytes), capacity_bytes_(capacity_bytes) {}

    template <typename T>
    void number(const T& value) {
        const uint64_t wide = packed::widen(value);
        put_number(packed::kIsSigned<T> ? zigzag(wide) : wide);
    }
    template <typename T>
    void delta(const T& value, uint64_t& before) {
        const uint64_t wide = packed::widen(value);
        put_number(zigzag(wide - before));
        before = wide;
    }
    void put(const void* bytes, size_t size_bytes) {
        if (!good_ || size_bytes > capacity_bytes_ - size_bytes_) {
            good_ = false;
            return;
        }
        std::memcpy(bytes_ + size_bytes_, bytes, size_bytes);
        size_bytes_ += size_bytes;
    }
    // A field: its tag, the length that its content turns out to have, and that.
    template <typename Tag, typename Content>
    void field(Tag tag, Content&& content) {
        number(tag);
        const size_t length_at = size_bytes_;
        const uint32_t none = 0;
        put(&none, kLengthBytes);
        const size_t begin = size_bytes_;
        content();
        if (good_) {
            put_length(length_at, size_bytes_ - begin);
        }
    }

    bool good() const { return good_; }
    size_t size_bytes() const { return size_bytes_; }

  private:
    static constexpr size_t kLengthBytes = 4;  // a varint with leading zeros: room for 28 bits

    void put_length(size_t at, size_t length) {
        for (size_t i = 0; i < kLengthBytes; ++i, length >>= 7) {
            bytes_[at + i] = static_cast<unsigned char>((length & 0x7F) | (i + 1 < kLengthBytes ? 0x80 : 0));
        }
    }
    void put_number(uint64_t value) {
        unsigned char coded[kMostVarintBytes];
        put(coded, write_varint(value, coded));
    }

    unsigned char* bytes_;
    size_t capacity_bytes_;
    size_t size_bytes_ = 0;
    bool good_ = true;
};

}  // namespace titan::format
