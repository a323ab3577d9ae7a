// Which rings lie on this node, and whose they are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace titan {

// Where rings may lie: in `chosen` and nowhere else, or where that is empty in TITANTRACE_RING_DIR or /dev/shm, and in
// /tmp, where tracers go that find no room there.
using RingDirectories = std::vector<std::string>;
RingDirectories ring_directories(const std::string& chosen);

// "/dev/shm/titantrace-1000" and whose it is.
struct PrivateDir {
    std::string path;
    uid_t owner = 0;
};

enum class Users { kThis, kAllForRoot };  // only root sees more than its own
std::vector<PrivateDir> private_directories(const RingDirectories& directories, Users users);

// Of that user alone (base/private_dir.h), and no link.
bool is_trusted(const PrivateDir& directory);

// Of all that is named like a ring there, in order.
std::vector<std::string> ring_names(const PrivateDir& directory);

// Of the name "PID-START[-N].ring"; none where it is another.
struct RingOwner {
    pid_t pid = 0;
    uint64_t start_ticks = 0;
};
std::optional<RingOwner> owner_of_ring(const std::string& ring_name);

// Of a ring without contents: whether its process lives, and is making it at this moment.
std::string unfinished_ring_text(const std::string& ring_name);

}  // namespace titan
