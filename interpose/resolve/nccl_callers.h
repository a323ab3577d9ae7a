// NCCL asks for CUDA's functions for its own use: it gets the real ones. Its work is recorded as its calls are; its
// threads are no threads of the program.
#pragma once

namespace titan::interpose {

// Is this address inside an object that defines NCCL? any-thread.
bool is_nccl(const void* address);

}  // namespace titan::interpose
