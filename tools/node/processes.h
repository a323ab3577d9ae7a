// The traced processes of this node, by the rings that they keep. Reads headers only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/layout/ring_layout.h"
#include "host/presence.h"
#include "host/result.h"
#include "node/owned_file.h"

namespace titan::tools {

struct NodeProcess {
    PrivateDir directory;
    std::string ring_name;
    format::RingHeader header{};
    Presence presence = Presence::kUnknown;
    int64_t heartbeat_age_ns = 0;  // 0 if unknown

    std::string ring_path() const { return directory.path + "/" + ring_name; }
    std::string run() const;
    bool is_gone() const { return titan::is_gone(presence); }
    // "rank 3 (pid 123)", "pid 123".
    std::string text() const;
};

struct NodeProcesses {
    std::vector<NodeProcess> processes;  // sorted by run, attempt, rank, pid
    std::vector<std::string> problems;   // about files that should have been rings
};

NodeProcesses find_processes(const std::string& ring_directory);

// The process of that pid, also where its rings lie elsewhere. The error says what to do instead.
Result<NodeProcess> find_process(int32_t pid, const std::string& ring_directory);

// Drops what earlier jobs of the same name left (dead before the newest of their attempt began), and dead processes
// whose rank runs again.
void leave_out_earlier(std::vector<NodeProcess>& processes);

}  // namespace titan::tools
