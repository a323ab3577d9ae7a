// Texts of one ring that something refers to, made safe to print and numbered densely; 0 is the empty text.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/ring/ring_image.h"
#include "host/words.h"
#include "made_texts.h"

namespace titan::analyzer {

// Not thread-safe; `image` and `texts` must outlive it.
class TextTable {
  public:
    TextTable(const format::RingImage& image, std::vector<std::string>& texts)
        : image_(image), texts_(texts), made_(texts) {
        texts_.emplace_back();
    }
    uint32_t use(uint32_t id) {
        if (id == 0) {
            return 0;
        }
        auto [found, inserted] = numbers_.try_emplace(id, 0);
        if (inserted) {
            const std::string_view raw = image_.text(id);
            if (!raw.empty()) {
                found->second = static_cast<uint32_t>(texts_.size());
                texts_.push_back(printable(raw));
            }
        }
        return found->second;
    }

    // A text that is made here, and printable.
    uint32_t add(const std::string& text) { return made_.add(text); }

  private:
    const format::RingImage& image_;
    std::vector<std::string>& texts_;
    std::unordered_map<uint32_t, uint32_t> numbers_;
    MadeTexts made_;
};

}  // namespace titan::analyzer
