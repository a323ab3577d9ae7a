// File descriptors. signal-safe.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace titan {

// A descriptor for the length of one operation: we keep none, because programs close all they find.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int number) : number_(number) {}
    Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Fd() { close_now(); }
    // False with errno where the file system reports a late error, as NFS and quota do.
    bool close_now() { return number_ < 0 || close(std::exchange(number_, -1)) == 0; }
    int get() const { return number_; }
    bool valid() const { return number_ >= 0; }

  private:
    int number_ = -1;
};

// Reads up to `size_bytes`; returns how many bytes there were.
size_t read_at(int fd, uint64_t offset_bytes, void* into, size_t size_bytes);

// False with errno; some of it may be written then.
bool write_all(int fd, const void* bytes, size_t size_bytes);

}  // namespace titan
