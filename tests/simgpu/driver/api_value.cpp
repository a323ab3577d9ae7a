// Driver API: words in memory that a stream writes, or waits for.
#include <atomic>
#include <thread>

#include "impl.h"

namespace simgpu::impl {

namespace {

template <typename T>
bool value_reached(T have, T want, unsigned flags) {
    switch (flags & 0x3u) {
        case CU_STREAM_WAIT_VALUE_EQ: return have == want;
        case CU_STREAM_WAIT_VALUE_AND: return (have & want) != 0;
        case CU_STREAM_WAIT_VALUE_NOR: return static_cast<T>(~(have | want)) != 0;
        default: return static_cast<std::make_signed_t<T>>(have - want) >= 0;
    }
}

template <typename T>
Work write_value(CUdeviceptr address, T value) {
    return [address, value] {
        std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release);
    };
}

template <typename T>
Work wait_value(const StreamRef& stream, CUdeviceptr address, T value, unsigned flags) {
    return [address, value, flags, cancelled = stream->context->cancelled] {
        std::atomic_ref<T> word(*reinterpret_cast<T*>(address));
        while (!value_reached(word.load(std::memory_order_acquire), value, flags) &&
               !std::atomic_ref<int32_t>(*cancelled).load()) {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    };
}

// Null: not an operation that we know, or not an address that the device can reach.
Work make_work(const StreamRef& stream, const CUstreamBatchMemOpParams& op) {
    const auto usable = [](CUdeviceptr address, size_t bytes) {
        return address % bytes == 0 && device_can_reach(address, bytes);
    };
    const auto& wait = op.waitValue;
    const auto& write = op.writeValue;
    switch (op.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            return usable(wait.address, 4) ? wait_value<uint32_t>(stream, wait.address, wait.value, wait.flags)
                                           : nullptr;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            return usable(wait.address, 8) ? wait_value<uint64_t>(stream, wait.address, wait.value64, wait.flags)
                                           : nullptr;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            return usable(write.address, 4) ? write_value<uint32_t>(write.address, write.value) : nullptr;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            return usable(write.address, 8) ? write_value<uint64_t>(write.address, write.value64) : nullptr;
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return [] {};
        default: return nullptr;
    }
}

CUresult submit_ops(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* ops) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    std::vector<Work> all;
    for (unsigned i = 0; i < count; ++i) {
        all.push_back(make_work(stream, ops[i]));
        if (!all.back()) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [all = std::move(all)] {
        for (const Work& one : all) {
            one();
        }
    });
}

template <typename T>
CUresult one_value(CUstream stream, CUdeviceptr address, T value, unsigned flags, bool write) {
    CUstreamBatchMemOpParams op = {};
    // Both members of the union begin alike: operation, address, value, flags.
    op.waitValue.address = address;
    op.waitValue.value64 = value;
    op.waitValue.flags = flags;
    op.operation = write ? sizeof(T) == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64
                         : (sizeof(T) == 4 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64);
    return submit_ops(stream, 1, &op);
}

}  // namespace

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops, unsigned int) {
    return ops && count > 0 ? submit_ops(stream, count, ops) : CUDA_ERROR_INVALID_VALUE;
}

// The forms without _v2 are those of drivers before 11.7, kept by name.
#define DEFINE(name, type, write)                                                              \
    CUresult name##_v2(CUstream stream, CUdeviceptr address, type value, unsigned int flags) { \
        return one_value(stream, address, value, flags, write);                                \
    }                                                                                          \
    CUresult name(CUstream stream, CUdeviceptr address, type value, unsigned int flags) {      \
        return one_value(stream, address, value, flags, write);                                \
    }
DEFINE(cuStreamWriteValue32, cuuint32_t, true)
DEFINE(cuStreamWriteValue64, cuuint64_t, true)
DEFINE(cuStreamWaitValue32, cuuint32_t, false)
DEFINE(cuStreamWaitValue64, cuuint64_t, false)
#undef DEFINE

}  // namespace simgpu::impl
