// The ranges that NCCL tells NVTX about its calls: domain "NCCL", registered names, the communicator and the bytes as
// an extended payload. NCCL_NVTX_DISABLE=1 turns them off. Without the toolkit's nvtx3 headers there are none.
#pragma once

#include <cstdint>

namespace simgpu {

class NvtxName {
  public:
    explicit NvtxName(const char* name);
    void* handle = nullptr;
};

class NvtxRange {
  public:
    NvtxRange(const NvtxName& name, uint64_t comm_hash = 0, uint64_t bytes = 0);
    ~NvtxRange();
    NvtxRange(const NvtxRange&) = delete;
    NvtxRange& operator=(const NvtxRange&) = delete;

  private:
    bool pushed_ = false;
};

#define SIMGPU_NVTX_RANGE(name, ...)                 \
    static const ::simgpu::NvtxName nvtx_name(name); \
    const ::simgpu::NvtxRange nvtx_range(nvtx_name __VA_OPT__(, ) __VA_ARGS__);

}  // namespace simgpu
