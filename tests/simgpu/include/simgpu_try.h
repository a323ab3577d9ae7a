// For the stand-ins alone.
#pragma once

// Leaves the function with a result of the driver, the runtime or NCCL that is no success; success is 0 in all three.
#define SIMGPU_TRY(call)                                                               \
    do {                                                                               \
        if (const auto simgpu_result = (call); static_cast<int>(simgpu_result) != 0) { \
            return simgpu_result;                                                      \
        }                                                                              \
    } while (false)
