// Adds texts to those of a process, each once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace titan::analyzer {

// Not thread-safe; `texts` must outlive it.
class MadeTexts {
  public:
    explicit MadeTexts(std::vector<std::string>& texts) : texts_(texts) {}

    // The number of a text, which must be printable; 0 of the empty one.
    uint32_t add(const std::string& text) {
        if (text.empty()) {
            return 0;
        }
        texts_.resize(std::max<size_t>(texts_.size(), 1));  // [0] is the empty text
        const auto [found, inserted] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
        if (inserted) {
            texts_.push_back(text);
        }
        return found->second;
    }

  private:
    std::vector<std::string>& texts_;
    std::unordered_map<std::string, uint32_t> numbers_;  // of those that were added here
};

}  // namespace titan::analyzer
