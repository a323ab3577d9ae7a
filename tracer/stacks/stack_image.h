// Builds the image of formats/stacks_layout.h in memory that is given: tables of fixed capacity, filled from the front.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/stacks_layout.h"
#include "modules.h"

namespace titan::tracer {

class StackImage {
  public:
    static constexpr size_t kMaxThreads = 4096;
    static constexpr size_t kMaxFrames = 128 << 10;
    static constexpr size_t kMaxModules = 4096;
    static constexpr size_t kTextBytes = 512 << 10;
    static size_t bytes();

    // Starts an empty image in zeroed memory of that many bytes.
    explicit StackImage(char* memory);

    format::StacksHeader& header() { return *header_; }
    // Null when the table is full.
    format::StackThread* add_thread();
    // Room for frames of the thread that is added next; used is what add_frames then takes.
    uint64_t* frame_room(size_t& capacity);
    void add_frames(format::StackThread& thread, size_t count);
    void add_module(const Module& module);
    // Offset of that text; 0 for the empty one and when there is no room.
    uint32_t text(const char* string);

  private:
    format::StackTableDescriptor& table(format::StackTable which);
    template <typename T>
    T* rows(format::StackTable which);

    char* memory_;
    format::StacksHeader* header_;
};

}  // namespace titan::tracer
