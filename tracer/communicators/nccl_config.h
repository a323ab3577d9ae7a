// The two fields of ncclConfig_t that say something about a communicator, read without trusting that the program and
// this library were built with the same nccl.h.
#pragma once

namespace titan::tracer {

struct NcclConfig {
    bool nonblocking;
    const char* name;  // commName, null when absent; owned by the program
};

// Reads only fields that lie below the structure's own `size`, and none if its magic number is not NCCL's. `config` may
// be null. Layout: nccl.h, ncclConfig_v21700 (2.17) and later; NCCL only ever appends to it.
NcclConfig read_nccl_config(const void* config);

}  // namespace titan::tracer
