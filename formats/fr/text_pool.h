// Each text once. Encodings that share texts give the same address again and again: then no text is compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace titan::format::fr {

// Not thread-safe. The texts that are given must keep their addresses and contents as long as the pool lives.
class TextPool {
  public:
    explicit TextPool(std::vector<std::string>& texts) : texts_(texts), recent_(kRecent) {
        texts_.assign(1, std::string());
        known_.emplace(std::string_view(), 0);
    }

    uint32_t use(std::string_view text) {
        if (text.empty()) {
            return 0;
        }
        const auto address = reinterpret_cast<uintptr_t>(text.data());
        Recent& recent = recent_[(address ^ (address >> 10)) % kRecent];
        if (recent.address == address && recent.size == text.size()) {
            return recent.id;
        }
        const auto [found, inserted] = known_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
        if (inserted) {
            texts_.emplace_back(text);
        }
        recent = {address, text.size(), found->second};
        return found->second;
    }

  private:
    static constexpr size_t kRecent = 1024;
    struct Recent {
        uintptr_t address = 0;
        size_t size = 0;
        uint32_t id = 0;
    };

    std::vector<std::string>& texts_;
    std::vector<Recent> recent_;
    std::unordered_map<std::string_view, uint32_t> known_;
};

}  // namespace titan::format::fr
