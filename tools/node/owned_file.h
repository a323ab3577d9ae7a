// Files that a tracer made, in the private directory of its user. Only through directories that nobody else can have
// put there or written to, never over a link, and never mapped for reading: another process may cut them at any time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/fd.h"
#include "host/node_rings.h"
#include "host/result.h"

namespace titan::tools {

// More than any ring's size: larger files are ignored.
inline constexpr uint64_t kMaxRingBytes = 1ull << 30;

class OwnedFile {
  public:
    enum class For { kReading, kAsking };  // asking writes single words

    static Result<OwnedFile> open(const PrivateDir& directory, const std::string& name, For purpose);
    uint64_t size_bytes() const { return size_bytes_; }
    // Reads up to `size_bytes`; returns how many bytes there were.
    size_t read_at(uint64_t offset_bytes, void* into, size_t size_bytes) const;
    bool write_at(uint64_t offset_bytes, const void* from, size_t size_bytes) const;
    // Wakes all who sleep on the 32-bit futex word there.
    bool wake_at(uint64_t offset_bytes) const;

  private:
    OwnedFile(Fd file, uint64_t size_bytes) : file_(std::move(file)), size_bytes_(size_bytes) {}

    Fd file_;
    uint64_t size_bytes_ = 0;
};

}  // namespace titan::tools
