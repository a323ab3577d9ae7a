// Finds the rings on this node and their owners.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace titan {

// `chosen` (an option), else what TITANTRACE_RING_DIR says; empty where neither names a directory.
std::string chosen_ring_directory(const std::string& chosen);

// Directories to search for rings: only `chosen` if it is set. Otherwise TITANTRACE_RING_DIR or /dev/shm, and /tmp,
// which tracers fall back to when there is no room.
using RingDirectories = std::vector<std::string>;
RingDirectories ring_directories(const std::string& chosen);

// A path such as "/dev/shm/titantrace-1000", and its owner.
struct PrivateDir {
    std::string path;
    uid_t owner = 0;
};

enum class Users { kThis, kAllForRoot };  // only root sees more than its own
std::vector<PrivateDir> private_directories(const RingDirectories& directories, Users users);

// True for a directory that only that user can write (base/private_dir.h) and that is no link.
bool is_trusted(const PrivateDir& directory);

// Names in the directory that look like rings, sorted.
std::vector<std::string> ring_names(const PrivateDir& directory);

// The process that the name "PID-START[-N].ring" stands for; nothing for other names.
struct RingOwner {
    pid_t pid = 0;
    uint64_t start_ticks = 0;
};
std::optional<RingOwner> owner_of_ring(const std::string& ring_name);

// Explains a ring without contents: does its process live, and is it creating the ring right now?
std::string unfinished_ring_text(const std::string& ring_name);

}  // namespace titan
