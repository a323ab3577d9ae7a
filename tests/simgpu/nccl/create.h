// How communicators come to be: the jobs behind init, split, shrink and grow.
#pragma once

#include "group.h"

namespace simgpu {

// Reads only what the caller's version of the struct has. A null config leaves `core` as it is.
ncclResult_t apply_config(const CoreRef& core, const ncclConfig_t* config);

// Sets the variables that the file named by NCCL_CONF_FILE holds; only the first call does anything.
void read_conf_file();

std::string key_of(const ncclUniqueId& id);
ncclUniqueId id_of(const std::string& key);
std::string fresh_key();

// A member of a new communicator joins the others; blocks.
ncclResult_t join_members(const CoreRef& core, const CoreRef& parent);

// *newcomm is set at once (init, grow) or when the members have met (split, shrink).
enum class Publish { kEarly, kLate };
void add_creation(const CoreRef& core, const CoreRef& parent, ncclComm_t* newcomm, Publish publish,
                  std::function<ncclResult_t()> prepare);

}  // namespace simgpu
