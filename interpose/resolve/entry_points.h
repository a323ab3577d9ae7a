// Chooses the pointers that cuGetProcAddress and its relatives hand out.
#pragma once

namespace titan::interpose {

// The function handed out for the driver function `symbol` of CUDA version `version` (0: unknown) instead of `real`:
// its wrapper, or `real` itself if we have no wrapper for that form or the caller is NCCL. cold, any-thread.
void* hand_out_driver(const char* symbol, void* real, int version, bool per_thread, const void* caller);

}  // namespace titan::interpose
