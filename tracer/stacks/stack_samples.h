// Where threads stood at many moments: their stacks, each kept once, in two images in the ring that are filled in
// turns, so that the newest are there whatever becomes of the process. For the watch thread; no heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "formats/layout/ring_layout.h"
#include "formats/layout/stacks_layout.h"
#include "stack_image.h"

namespace titan::tracer {

class StackSamples {
  public:
    // Takes zeroed memory of format::kSampleImages images, null for none. False: nothing will be kept.
    bool start(char* region);

    // A sample of each thread of an image of sample_stacks, of that moment.
    void add(std::span<const char> sampled, uint64_t ticks, int64_t step);

    // Puts names of exported functions into a copy of the ring. After collect_stacks.
    void name_functions(const format::RingHeader& ring, char* copy);

  private:
    static constexpr uint32_t kPlaces = 4096;  // power of two, more than an image has rows
    struct Work {
        uint32_t known_texts[StackImage::kKnownTexts];
        uint32_t known_names[StackImage::kKnownTexts];  // of a copy
        uint32_t rows[kPlaces];                         // of the image's threads, + 1, by hash
    };

    void turn();
    bool has_room(const format::StackThread& thread) const;
    uint32_t row_of(std::span<const char> sampled, const format::StackThread& thread);
    format::StackThread lay_out(std::span<const char> sampled, const format::StackThread& thread);
    void keep(std::span<const char> sampled, const format::StackThread& thread);
    void add_module_of(std::span<const char> sampled, uint64_t address);

    char* region_ = nullptr;
    uint32_t current_ = 0;
    Work* work_ = nullptr;
    std::optional<StackImage> image_;
};

}  // namespace titan::tracer
