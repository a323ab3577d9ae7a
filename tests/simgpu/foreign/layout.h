// Parts that arguments of PyTorch's kernels have in common (ATen/cuda/detail/OffsetCalculator.cuh).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace simgpu::foreign {

template <class T>
T load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

// From the number of an element to its offset in bytes, in each operand.
template <int kOperands>
struct OffsetCalculator {
    static constexpr int kMaxDimensions = 25;
    struct Divider {
        uint32_t divisor, magic, shift;
    };
    int dimensions;
    Divider sizes[kMaxDimensions];
    uint32_t strides[kMaxDimensions][kOperands];

    std::array<uint32_t, kOperands> get(uint32_t index) const {
        std::array<uint32_t, kOperands> offsets = {};
        for (int dimension = 0; dimension < dimensions; ++dimension) {
            const uint32_t size = sizes[dimension].divisor;
            for (int operand = 0; operand < kOperands; ++operand) {
                offsets[operand] += index % size * strides[dimension][operand];
            }
            index /= size;
        }
        return offsets;
    }
};

}  // namespace simgpu::foreign
