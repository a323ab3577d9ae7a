// The mapped files of a process, one at a time, through a buffer that the caller gives.
//
// Thread-safety: one reader belongs to one thread. Async-signal-safe. Source: proc_pid_maps(5).
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan {

struct Mapping {
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t file_offset = 0;
    bool readable = false;
    const char* path = "";  // escaped as the kernel does; valid until the next mapping is asked for
};

class MapsReader {
  public:
    // A line that does not fit into the room is left out: 4,300 bytes hold any path.
    MapsReader(int32_t pid, char* room, size_t room_bytes);
    ~MapsReader();
    MapsReader(const MapsReader&) = delete;
    MapsReader& operator=(const MapsReader&) = delete;

    bool next(Mapping& mapping);
    int error() const { return error_; }  // errno of what could not be opened or read, 0 none

  private:
    bool next_line(char*& line, size_t& length_bytes);

    char* room_;
    size_t room_bytes_;
    size_t begin_ = 0, end_ = 0;
    int fd_;
    int error_ = 0;
    bool skipping_ = false;
};

}  // namespace titan
