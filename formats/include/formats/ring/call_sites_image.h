// Reads the region of call_sites_layout.h. Like every reader: offsets, counts and texts in it are claims, and what lies
// outside of the bytes is left out. Values are copies; texts point into the bytes, which must outlive the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/layout/call_sites_layout.h"
#include "formats/layout/stacks_layout.h"

namespace titan::format {

class CallSitesImage {
  public:
    CallSitesImage() = default;  // nothing in it
    explicit CallSitesImage(std::span<const std::byte> region);

    bool empty() const { return bytes_.empty(); }
    const CallSitesHeader& header() const { return header_; }

    struct Frame {
        CallPlace place;  // zeros: there was no room for it
        bool is_entry = false;
    };
    struct Stack {
        std::vector<Frame> native;  // innermost first
        std::vector<Frame> python;  // innermost first
        bool native_cut = false;
        bool python_cut = false;
    };
    // The stack with the number that an entry holds; nothing for 0 or an unfinished stack.
    std::optional<Stack> stack(uint32_t number) const;
    // Finished stacks that are there.
    std::vector<CallStackRecord> stacks() const;
    std::vector<StackModule> modules() const;
    std::string_view text(uint32_t id) const;

  private:
    const CallSiteTableDescriptor& table(CallSiteTable which) const {
        return header_.tables[static_cast<uint32_t>(which)];
    }
    // Rows of the table that lie inside the bytes.
    uint64_t rows(CallSiteTable which, size_t least_stride_bytes) const;
    template <typename T>
    std::optional<T> row(CallSiteTable which, uint64_t index) const {
        static_assert(std::is_trivially_copyable_v<T>);
        if (index >= rows(which, sizeof(T))) {
            return std::nullopt;
        }
        T copy;
        std::memcpy(&copy, bytes_.data() + table(which).offset_bytes + index * table(which).stride_bytes, sizeof(T));
        return copy;
    }
    void add_frames(std::vector<Frame>& frames, uint64_t first, uint64_t count) const;

    std::span<const std::byte> bytes_;
    CallSitesHeader header_{};
};

}  // namespace titan::format
