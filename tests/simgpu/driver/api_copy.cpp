// Driver API: copies and sets. A row of bytes, a rectangle and a box are all the same copy here.
#include <atomic>
#include <cstring>
#include <thread>

#include "capture.h"
#include "impl.h"

namespace simgpu::impl {

namespace {

struct Side {
    CUdeviceptr start = 0;  // of the first row
    size_t pitch = 0;       // from row to row
    size_t slice = 0;       // from plane to plane
};

struct Box {
    Side to, from;
    size_t width = 0, height = 1, depth = 1;
};

Box row(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return {{to, 0, 0}, {from, 0, 0}, bytes, 1, 1}; }

void copy_box(const Box& box, int32_t* cancelled) {
    if (box.from.start == address(SIMGPU_STALLED_MEMORY)) {
        while (!std::atomic_ref<int32_t>(*cancelled).load()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return;
    }
    for (size_t z = 0; z < box.depth; ++z) {
        for (size_t y = 0; y < box.height; ++y) {
            const auto at = [&](const Side& side) { return side.start + z * side.slice + y * side.pitch; };
            std::memmove(reinterpret_cast<void*>(at(box.to)), reinterpret_cast<const void*>(at(box.from)), box.width);
        }
    }
}

CUresult copy_async(CUstream handle, const Box& box) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                  [box, cancelled = stream->context->cancelled] { copy_box(box, cancelled.get()); });
}

// A synchronous copy runs on the default stream and waits for it.
CUresult copy_now(const Box& box) {
    {
        std::lock_guard lock(driver().lock);
        SIMGPU_TRY(check_unsafe_call());
    }
    const CUresult result = copy_async(nullptr, box);
    return result == CUDA_SUCCESS ? impl::cuStreamSynchronize(nullptr) : result;
}

// The parts that the structures of the 2D, 3D and peer copies have in common. Arrays are not simulated.
template <typename Params>
CUresult rectangle(const Params* p, Box* box) {
    if (!p || p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    const bool host_from = p->srcMemoryType == CU_MEMORYTYPE_HOST, host_to = p->dstMemoryType == CU_MEMORYTYPE_HOST;
    box->from = {host_from ? address(p->srcHost) : p->srcDevice, p->srcPitch ? p->srcPitch : p->WidthInBytes, 0};
    box->to = {host_to ? address(p->dstHost) : p->dstDevice, p->dstPitch ? p->dstPitch : p->WidthInBytes, 0};
    box->width = p->WidthInBytes;
    box->height = p->Height;
    box->depth = 1;
    box->from.start += p->srcXInBytes + p->srcY * box->from.pitch;
    box->to.start += p->dstXInBytes + p->dstY * box->to.pitch;
    return CUDA_SUCCESS;
}

template <typename Params>
CUresult cuboid(const Params* p, Box* box) {
    const CUresult result = rectangle(p, box);
    if (result == CUDA_SUCCESS) {
        box->from.slice = box->from.pitch * (p->srcHeight ? p->srcHeight : p->Height);
        box->to.slice = box->to.pitch * (p->dstHeight ? p->dstHeight : p->Height);
        box->depth = p->Depth;
        box->from.start += p->srcZ * box->from.slice;
        box->to.start += p->dstZ * box->to.slice;
    }
    return result;
}

template <typename Params>
CUresult copy_2d(const Params* params, CUstream stream, bool wait) {
    Box box;
    const CUresult result = rectangle(params, &box);
    return result != CUDA_SUCCESS ? result : wait ? copy_now(box) : copy_async(stream, box);
}

template <typename Params>
CUresult copy_3d(const Params* params, CUstream stream, bool wait) {
    Box box;
    const CUresult result = cuboid(params, &box);
    return result != CUDA_SUCCESS ? result : wait ? copy_now(box) : copy_async(stream, box);
}

template <typename T>
CUresult set_async(CUstream handle, CUdeviceptr to, size_t pitch, T value, size_t width, size_t height) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
        for (size_t y = 0; y < height; ++y) {
            for (size_t x = 0; x < width; ++x) {
                std::memcpy(reinterpret_cast<char*>(to) + y * pitch + x * sizeof(value), &value, sizeof(value));
            }
        }
    });
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_now(row(to, from, bytes)); }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    return copy_now(row(to, address(from), bytes));
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) { return copy_now(row(address(to), from, bytes)); }
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_now(row(to, from, bytes)); }
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
    return copy_now(row(to, from, bytes));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(stream, row(to, from, bytes));
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return copy_async(stream, row(to, address(from), bytes));
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(stream, row(address(to), from, bytes));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(stream, row(to, from, bytes));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
    return copy_async(stream, row(to, from, bytes));
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* params) { return copy_2d(params, nullptr, true); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* params) { return copy_2d(params, nullptr, true); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* params, CUstream stream) { return copy_2d(params, stream, false); }
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* params) { return copy_3d(params, nullptr, true); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* params, CUstream stream) { return copy_3d(params, stream, false); }
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* params) { return copy_3d(params, nullptr, true); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* params, CUstream stream) {
    return copy_3d(params, stream, false);
}

// bits, type; the plain, the asynchronous and the two-dimensional form
#define SIMGPU_SETS(X) X(8, unsigned char) X(16, unsigned short) X(32, unsigned int)
#define DEFINE(bits, type)                                                                                   \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                                \
        return set_async(nullptr, to, 0, value, count, 1);                                                   \
    }                                                                                                        \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {             \
        return set_async(stream, to, 0, value, count, 1);                                                    \
    }                                                                                                        \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) { \
        return set_async(nullptr, to, pitch, value, width, height);                                          \
    }                                                                                                        \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, \
                                      CUstream stream) {                                                     \
        return set_async(stream, to, pitch, value, width, height);                                           \
    }
SIMGPU_SETS(DEFINE)
#undef DEFINE

}  // namespace simgpu::impl
