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
    static constexpr size_t kKnownTexts = 16 << 10;          // power of two
    static std::span<const format::StackTableSize> sizes();  // of the image of a dump
    static size_t bytes();                                   // likewise

    // Starts an empty image in zeroed memory of that size. `known_texts`: kKnownTexts zeros to work with.
    StackImage(char* memory, uint32_t* known_texts,
               std::span<const format::StackTableSize> sizes = StackImage::sizes());
    // Goes on with an image that was made with the same sizes.
    static StackImage continued(char* memory, uint32_t* known_texts, std::span<const format::StackTableSize> sizes);

    format::StacksHeader& header() { return *header_; }
    size_t room(format::StackTable which) const { return capacity_[static_cast<uint32_t>(which)] - count(which); }
    // The rows in use; behind them there is room for more.
    template <typename T>
    T* rows(format::StackTable which) {
        return reinterpret_cast<T*>(memory_ + table(which).offset_bytes);
    }
    uint32_t count(format::StackTable which) const { return header_->tables[static_cast<uint32_t>(which)].count; }
    // Null when the table is full.
    format::StackThread* add_thread();
    std::span<format::StackThread> threads();
    void describe(format::StackThread& thread, pid_t tid, const ProcThread& proc);
    // Room for frames of the thread that is added next; used is what add_frames then takes.
    uint64_t* frame_room(size_t& capacity);
    void add_frames(format::StackThread& thread, size_t count);
    std::span<const format::StackFrame> frames();
    void add_module(const Module& module);
    void add_module(const format::StackModule& module, const char* path);
    // Left out when the table is full.
    void add_name(uint64_t address, const char* name);
    // False: the table is full.
    bool add_python(const format::StackPython& frame);
    uint32_t python_count() { return table(format::StackTable::kPython).count; }
    // Rows that were written behind those in use.
    void take_python(uint32_t rows) { table(format::StackTable::kPython).count += rows; }
    void add_sample(const format::StackSample& sample);
    // Offset of that text, each once; 0 for the empty one and when there is no room.
    uint32_t text(const char* string);

  private:
    StackImage(char* memory, uint32_t* known_texts, std::nullptr_t)
        : memory_(memory), known_texts_(known_texts), header_(reinterpret_cast<format::StacksHeader*>(memory)) {}
    void take_sizes(std::span<const format::StackTableSize> sizes);
    format::StackTableDescriptor& table(format::StackTable which);

    char* memory_;
    uint32_t* known_texts_;  // offsets, by hash
    format::StacksHeader* header_;
    uint32_t capacity_[format::kStackTables] = {};
};

// The rows of a table of a finished image, which we made ourselves.
template <typename Row>
std::span<const Row> rows_of(std::span<const char> image, format::StackTable which) {
    const auto& table =
        reinterpret_cast<const format::StacksHeader*>(image.data())->tables[static_cast<uint32_t>(which)];
    return {reinterpret_cast<const Row*>(image.data() + table.offset_bytes), table.count};
}

}  // namespace titan::tracer
