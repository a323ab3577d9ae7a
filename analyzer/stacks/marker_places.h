// The places in the program from which markers came, as a ring holds them, in words: "train.py:40 step".
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "formats/ring/ring_image.h"
#include "named_stacks.h"

namespace titan::analyzer {

// Numbers are MarkerEntry::site. Its bytes and the symbols must outlive it. Not thread-safe.
class MarkerPlaces {
  public:
    // Native places are shown as "program+0x1234" without symbols.
    MarkerPlaces(const format::RingImage& image, Symbols* symbols) : image_(image), symbols_(symbols) {}

    // Empty for 0, and where nobody has put the place into words before the process ended.
    const std::string& place(uint32_t site);

  private:
    std::string native_place(const std::string& stored);

    format::RingImage image_;
    Symbols* symbols_;
    std::unordered_map<uint32_t, std::string> known_;
};

}  // namespace titan::analyzer
