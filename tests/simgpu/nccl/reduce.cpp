#include "reduce.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simgpu {

namespace {

// datatype, storage, arithmetic
#define SIMGPU_TYPES(X)                     \
    X(ncclInt8, int8_t, int8_t)             \
    X(ncclUint8, uint8_t, uint8_t)          \
    X(ncclInt32, int32_t, int32_t)          \
    X(ncclUint32, uint32_t, uint32_t)       \
    X(ncclInt64, int64_t, int64_t)          \
    X(ncclUint64, uint64_t, uint64_t)       \
    X(ncclFloat16, __half, float)           \
    X(ncclFloat32, float, float)            \
    X(ncclFloat64, double, double)          \
    X(ncclBfloat16, __nv_bfloat16, float)   \
    X(ncclFloat8e4m3, __nv_fp8_e4m3, float) \
    X(ncclFloat8e5m2, __nv_fp8_e5m2, float)

// Integers wrap around like the device's; unsigned arithmetic keeps that defined.
template <typename T>
struct Wide {
    using Type = T;
};
template <>
struct Wide<int8_t> {
    using Type = uint32_t;
};
template <>
struct Wide<uint8_t> {
    using Type = uint32_t;
};
template <>
struct Wide<int32_t> {
    using Type = uint32_t;
};
template <>
struct Wide<int64_t> {
    using Type = uint64_t;
};

template <typename T>
T add(T a, T b) {
    using W = typename Wide<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
}

template <typename T>
T multiply(T a, T b) {
    using W = typename Wide<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
}

template <typename T>
T combine(ncclRedOp_t op, T a, T b) {
    switch (op) {
        case ncclProd: return multiply(a, b);
        case ncclMax: return a > b ? a : b;
        case ncclMin: return a < b ? a : b;
        default: return add(a, b);  // Sum, Avg, and sums of values that were multiplied before
    }
}

template <typename Stored, typename Math>
void reduce_typed(ncclRedOp_t op, void* out, const void* const* in, int inputs, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        Math value = static_cast<Math>(static_cast<const Stored*>(in[0])[i]);
        for (int k = 1; k < inputs; ++k) {
            value = combine(op, value, static_cast<Math>(static_cast<const Stored*>(in[k])[i]));
        }
        if (op == ncclAvg) {
            value = static_cast<Math>(value / static_cast<Math>(inputs));
        }
        static_cast<Stored*>(out)[i] = static_cast<Stored>(value);
    }
}

template <typename Stored, typename Math>
void scale_typed(void* out, const void* in, const void* scalar, size_t count) {
    Stored stored;
    std::memcpy(&stored, scalar, sizeof(stored));
    const Math factor = static_cast<Math>(stored);
    for (size_t i = 0; i < count; ++i) {
        static_cast<Stored*>(out)[i] =
            static_cast<Stored>(multiply(static_cast<Math>(static_cast<const Stored*>(in)[i]), factor));
    }
}

}  // namespace

size_t element_bytes(ncclDataType_t type) {
    switch (type) {
#define ROW(name, stored, math) \
    case name: return sizeof(stored);
        SIMGPU_TYPES(ROW)
#undef ROW
        default: return 0;
    }
}

void reduce(ncclDataType_t type, ncclRedOp_t op, void* out, const void* const* in, int inputs, size_t count) {
    switch (type) {
#define ROW(name, stored, math) \
    case name: return reduce_typed<stored, math>(op, out, in, inputs, count);
        SIMGPU_TYPES(ROW)
#undef ROW
        default: return;
    }
}

void scale(ncclDataType_t type, void* out, const void* in, const void* scalar, size_t count) {
    switch (type) {
#define ROW(name, stored, math) \
    case name: return scale_typed<stored, math>(out, in, scalar, count);
        SIMGPU_TYPES(ROW)
#undef ROW
        default: return;
    }
}

}  // namespace simgpu
