// Builds the image of formats/layout/stacks_layout.h in memory that is given: tables of fixed capacity, filled from the
// front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/proc_thread.h"
#include "formats/layout/stacks_layout.h"
#include "modules.h"

namespace titan::tracer {

class StackImage {
  public:
    static constexpr size_t kMaxThreads = 4096;
    static constexpr size_t kMaxFrames = 128 << 10;
    static constexpr size_t kMaxModules = 4096;
    static constexpr size_t kMaxPython = 128 << 10;
    static constexpr size_t kMaxNames = 16 << 10;
    static constexpr size_t kTextBytes = 1 << 20;
    static constexpr size_t kKnownTexts = 16 << 10;  // power of two
    static size_t bytes();

    // Starts an empty image in zeroed memory of that many bytes. `known_texts`: kKnownTexts zeros to work with.
    StackImage(char* memory, uint32_t* known_texts);

    format::StacksHeader& header() { return *header_; }
    // Null when the table is full.
    format::StackThread* add_thread();
    std::span<format::StackThread> threads();
    void describe(format::StackThread& thread, pid_t tid, const ProcThread& proc);
    // Room for frames of the thread that is added next; used is what add_frames then takes.
    uint64_t* frame_room(size_t& capacity);
    void add_frames(format::StackThread& thread, size_t count);
    std::span<const format::StackFrame> frames();
    void add_module(const Module& module);
    // Left out when the table is full.
    void add_name(uint64_t address, const char* name);
    // False: the table is full.
    bool add_python(const format::StackPython& frame);
    uint32_t python_count() { return table(format::StackTable::kPython).count; }
    // Offset of that text, each once; 0 for the empty one and when there is no room.
    uint32_t text(const char* string);

  private:
    format::StackTableDescriptor& table(format::StackTable which);
    template <typename T>
    T* rows(format::StackTable which);

    char* memory_;
    uint32_t* known_texts_;  // offsets, by hash
    format::StacksHeader* header_;
};

}  // namespace titan::tracer
