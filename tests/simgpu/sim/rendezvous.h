// How ranks of one launcher exchange unique ids: files in a directory that the launcher made.
#pragma once

#include <nccl.h>

#include <string>

namespace simgpu {

void publish_id(const std::string& directory, const std::string& name, const ncclUniqueId& id);
// Waits for it, for ever: a rank that never publishes is a hang like any other.
ncclUniqueId await_id(const std::string& directory, const std::string& name);

}  // namespace simgpu
