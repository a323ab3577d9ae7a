// Reads the image of stacks_layout.h. Offsets, counts and texts in it are claims: anything outside of the bytes is left
// out. Values are copies; texts point into the bytes, which must outlive the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/layout/stacks_layout.h"
#include "host/result.h"

namespace titan::format {

class StacksImage {
  public:
    static Result<StacksImage> open(std::span<const std::byte> bytes);

    const StacksHeader& header() const { return header_; }
    std::vector<StackThread> threads() const { return rows<StackThread>(StackTable::kThreads); }
    std::vector<StackModule> modules() const { return rows<StackModule>(StackTable::kModules); }
    // Addresses, innermost first.
    std::vector<uint64_t> frames(const StackThread& thread) const;
    std::vector<StackPython> python(const StackThread& thread) const {
        return rows<StackPython>(StackTable::kPython, thread.first_python, thread.python_count);
    }
    std::vector<StackName> names() const { return rows<StackName>(StackTable::kNames); }
    std::vector<StackSample> samples() const { return rows<StackSample>(StackTable::kSamples); }
    // Empty for 0, and for damage.
    std::string_view text(uint32_t offset) const;

  private:
    StacksImage(std::span<const std::byte> bytes, const StacksHeader& header) : bytes_(bytes), header_(header) {}

    const StackTableDescriptor& table(StackTable which) const { return header_.tables[static_cast<uint32_t>(which)]; }
    // Rows of the table that are there, at most `count` from `first` on.
    uint64_t available(StackTable which, uint64_t first, uint64_t count) const;

    template <typename T>
    std::vector<T> rows(StackTable which, uint64_t first = 0, uint64_t count = UINT64_MAX) const {
        static_assert(std::is_trivially_copyable_v<T>);
        const StackTableDescriptor& of = table(which);
        std::vector<T> copies(of.stride_bytes < sizeof(T) ? 0 : available(which, first, count));
        for (uint64_t i = 0; i < copies.size(); ++i) {
            std::memcpy(&copies[i], bytes_.data() + of.offset_bytes + (first + i) * of.stride_bytes, sizeof(T));
        }
        return copies;
    }

    std::span<const std::byte> bytes_;
    StacksHeader header_;
};

}  // namespace titan::format
