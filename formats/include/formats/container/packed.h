// Integers in as few bytes as they need, and fields with a tag and a length, in memory. One function that is a template
// over Packer and Unpacker describes a structure for both ways. An Unpacker never reads past its bytes and never makes
// room for more elements than its bytes can hold; the first thing that is wrong makes it fail, and it gives zeros from
// then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/container/packed_number.h"

namespace titan::format {

class Packer {
  public:
    static constexpr bool kReads = false;

    template <typename T>
    void number(const T& value) {
        const uint64_t wide = packed::widen(value);
        put(packed::kIsSigned<T> ? zigzag(wide) : wide);
    }
    // The difference to the value before it, which becomes this one.
    template <typename T>
    void delta(const T& value, uint64_t& before) {
        const uint64_t wide = packed::widen(value);
        put(zigzag(wide - before));
        before = wide;
    }
    void text(const std::string& text) {
        put(text.size());
        const auto bytes = std::as_bytes(std::span(text));
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    size_t count(size_t count, size_t /*least_bytes_each*/) {
        put(count);
        return count;
    }
    // Bytes of a field go through here: tag, length, content.
    template <typename Content>
    void field(uint64_t tag, Content&& content) {
        Packer inner;
        content(inner);
        put(tag);
        put(inner.bytes_.size());
        bytes_.insert(bytes_.end(), inner.bytes_.begin(), inner.bytes_.end());
    }
    const std::vector<std::byte>& bytes() const { return bytes_; }

  private:
    void put(uint64_t value) {
        unsigned char coded[kMostVarintBytes];
        const auto bytes = std::as_bytes(std::span(coded)).first(write_varint(value, coded));
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    std::vector<std::byte> bytes_;
};

class Unpacker {
  public:
    static constexpr bool kReads = true;
    explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <typename T>
    void number(T& value) {
        const uint64_t coded = take();
        value = static_cast<T>(packed::kIsSigned<T> ? unzigzag(coded) : coded);
    }
    template <typename T>
    void delta(T& value, uint64_t& before) {
        before += unzigzag(take());
        value = static_cast<T>(before);
    }
    void text(std::string& text) {
        const size_t length = count(0, 1);
        text.assign(reinterpret_cast<const char*>(rest_.data()), length);
        rest_ = rest_.subspan(length);
    }
    unsigned char byte() {
        if (rest_.empty()) {
            fail();
            return 0;
        }
        const auto byte = static_cast<unsigned char>(rest_.front());
        rest_ = rest_.subspan(1);
        return byte;
    }
    // The number of elements that follow, each at least `least_bytes_each` long.
    size_t count(size_t, size_t least_bytes_each) {
        const uint64_t claimed = take();
        if (claimed > rest_.size() / least_bytes_each) {
            fail();
            return 0;
        }
        return static_cast<size_t>(claimed);
    }
    // The next field: its tag and content; false at the end.
    bool next_field(uint64_t& tag, Unpacker& content) {
        if (rest_.empty()) {
            return false;
        }
        tag = take();
        const size_t length = count(0, 1);
        content = Unpacker(rest_.first(length));
        rest_ = rest_.subspan(length);
        return good_;
    }
    void fail() {
        good_ = false;
        rest_ = {};
    }
    bool good() const { return good_; }
    size_t size_bytes() const { return rest_.size(); }

  private:
    uint64_t take() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<uint64_t>(rest_.front());
            rest_ = rest_.subspan(1);
            value |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                return value;
            }
        }
        fail();
        return 0;
    }
    std::span<const std::byte> rest_;
    bool good_ = true;
};

}  // namespace titan::format
