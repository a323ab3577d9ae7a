// Device code for the GPU checks that needs no compiler on the machine: PTX text, which the driver translates. The
// simulated GPU has kernels of the same names; which of the two is there shows when the driver refuses one.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpu_check {

// A driver's kernels need a current context. Ends the process with a sentence when a call fails; any-thread once made.
class Kernels {
  public:
    Kernels();

    // Busy until the word at `flag` is not 0, or the bound has passed.
    void hold(CUdeviceptr flag, uint64_t bound_ns, CUstream stream) const;
    // Busy for that long on `blocks` blocks.
    void busy(uint64_t duration_ns, unsigned blocks, CUstream stream) const;
    // data[i] += value
    void add(CUdeviceptr data, uint32_t count, float value, CUstream stream) const;

  private:
    CUmodule module_ = nullptr;
    CUfunction hold_ = nullptr, busy_ = nullptr, add_ = nullptr;
};

// What the image of the runtime's part needs: the same kernels, as PTX and as the stand-in's table.
extern const char* const kPtx;
const void* simulated_kernels();

}  // namespace gpu_check
