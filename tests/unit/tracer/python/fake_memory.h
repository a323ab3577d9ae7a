// Memory that is made up: a Python's structures laid out by hand in one piece, which a test then damages.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime.h"

class FakeMemory {
  public:
    static constexpr uint64_t kBase = 0x7f0000000000;

    FakeMemory() : bytes_(64) {}

    titan::Memory reader() const;
    uint64_t take(size_t bytes);  // zeroed, aligned to 16
    void put(uint64_t address, const void* from, size_t bytes);
    template <class T>
    void set(uint64_t address, T value) {
        put(address, &value, sizeof(value));
    }
    std::vector<char>& bytes() { return bytes_; }
    mutable uint64_t reads = 0;

  private:
    static size_t read_some(const titan::Memory& memory, uint64_t address, void* into, size_t bytes);

    std::vector<char> bytes_;
};

// One interpreter with threads, each with frames; in the layout of any version.
class FakePython {
  public:
    explicit FakePython(uint32_t minor, bool free_threaded = false);

    uint64_t text(std::string_view ascii);
    uint64_t wide_text(const std::vector<uint32_t>& characters, uint32_t width);
    uint64_t code(std::string_view file, std::string_view name, int32_t first_line, std::string_view table);
    uint64_t add_thread(uint64_t native_id);
    // Outside all frames that the thread has; `owner` 3 makes a placeholder. Returns its address.
    uint64_t add_frame(uint64_t thread, uint64_t code, int32_t offset, uint8_t owner = 0, bool entry = false);
    void set_previous(uint64_t frame, uint64_t previous);

    FakeMemory memory;
    titan::tracer::python::Runtime runtime;
    uint64_t interpreter;
    std::vector<uint64_t> threads, frames;

  private:
    uint64_t type(const char* name);
    std::vector<uint64_t> last_frame_;
};
