// nccl.h with its functions exported from this library, and the pair of names that each of them has in NVIDIA's:
// pncclX strong and ncclX weak at the same address. Both are checked against the header's declarations.
#pragma once

#ifndef NCCL_OS_LINUX
#define NCCL_OS_LINUX  // the wheels' headers hide a few functions without it
#endif
#pragma GCC visibility push(default)
#include <nccl.h>
#include <nccl_device.h>
#pragma GCC visibility pop

#define NCCL_EXPORT(result, name, parameters)                                                         \
    extern "C" __attribute__((visibility("default"))) result p##name parameters;                      \
    extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) result name parameters; \
    result p##name parameters
