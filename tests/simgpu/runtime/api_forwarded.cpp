// Runtime API: the calls that are one driver call each, made from forwarded.def; and stream capture's questions.
#include "cbids.h"
#include "runtime.h"

using namespace simgpu;

namespace {

CUdeviceptr ptr(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUdeviceptr* out(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }
unsigned char byte(int value) { return static_cast<unsigned char>(value); }

template <typename To, typename From>
To* as(From* from) {
    static_assert(sizeof(To) == sizeof(From));
    return reinterpret_cast<To*>(from);
}

CUDA_MEMCPY2D rectangle_of(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                           size_t height) {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = ptr(from);
    copy.srcPitch = from_pitch;
    copy.dstDevice = ptr(to);
    copy.dstPitch = to_pitch;
    copy.WidthInBytes = width;
    copy.Height = height;
    return copy;
}

// The driver's parameters live until the end of the full expression that makes the call.
template <typename Params>
struct Temporary {
    Params value;
    operator const Params*() const { return &value; }
};

Temporary<CUDA_MEMCPY2D> rectangle(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                   size_t height) {
    return {rectangle_of(to, to_pitch, from, from_pitch, width, height)};
}

// Arrays are not simulated: a copy that names one is refused by the driver.
template <typename Driver, typename Runtime>
Temporary<Driver> box(const Runtime* p) {
    Driver copy = {};
    copy.srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
    copy.dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = ptr(p->srcPtr.ptr);
    copy.srcPitch = p->srcPtr.pitch;
    copy.srcHeight = p->srcPtr.ysize;
    copy.srcXInBytes = p->srcPos.x;
    copy.srcY = p->srcPos.y;
    copy.srcZ = p->srcPos.z;
    copy.dstDevice = ptr(p->dstPtr.ptr);
    copy.dstPitch = p->dstPtr.pitch;
    copy.dstHeight = p->dstPtr.ysize;
    copy.dstXInBytes = p->dstPos.x;
    copy.dstY = p->dstPos.y;
    copy.dstZ = p->dstPos.z;
    copy.WidthInBytes = p->extent.width;
    copy.Height = p->extent.height;
    copy.Depth = p->extent.depth;
    return {copy};
}

// A cuboid that fills its planes is one tall rectangle.
size_t rows_of(const cudaPitchedPtr& to, const cudaExtent& extent) {
    return extent.depth > 1 ? to.ysize * (extent.depth - 1) + extent.height : extent.height * extent.depth;
}

const char* no_symbol() { return nullptr; }

}  // namespace

#define FORWARD_AS(name, parameters, arguments, table, call)                                   \
    cudaError_t name parameters {                                                              \
        TRACED(name, arguments, no_symbol,                                                     \
               [&] { return forward(table, [&](const DriverTable& cu) { return cu.call; }); }) \
    }
#define FORWARD(name, parameters, arguments, call) FORWARD_AS(name, parameters, arguments, driver_table(), call)
#define FORWARD_PT(suffix, name, parameters, arguments, call) \
    FORWARD(name, parameters, arguments, call)                \
    EXPORT decltype(name) name##_##suffix;                    \
    FORWARD_AS(name##_##suffix, parameters, arguments, per_thread_driver_table(), call)
#include "forwarded.def"
#undef FORWARD
#undef FORWARD_PT

namespace {

cudaError_t capture_info(const DriverTable* table, cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                         const cudaGraphEdgeData** edges, size_t* count) {
    cuuint64_t driver_id = 0;
    const cudaError_t error = forward(table, [&](const DriverTable& cu) {
        return cu.cuStreamGetCaptureInfo(stream, as<CUstreamCaptureStatus>(status), &driver_id, graph, dependencies,
                                         reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    });
    if (id) {
        *id = driver_id;
    }
    return error;
}

}  // namespace

// CUDA 12 keeps three forms under ELF names that 13's header no longer declares. The oldest has the name of 13's newest
// one, hence the assembler names.
#define CAPTURE_INFO(function, table, symbol, parameters, ...) \
    EXPORT cudaError_t function parameters __asm__(symbol);    \
    EXPORT cudaError_t function parameters { return capture_info(table, stream, __VA_ARGS__); }
#define CAPTURE_INFO_FORMS(function, symbol, parameters, ...)               \
    CAPTURE_INFO(function, driver_table(), symbol, parameters, __VA_ARGS__) \
    CAPTURE_INFO(function##_per_thread, per_thread_driver_table(), symbol "_ptsz", parameters, __VA_ARGS__)

#if SIMGPU_CUDART_MAJOR >= 13
#define NEWEST_CAPTURE_INFO "cudaStreamGetCaptureInfo"
#else
#define NEWEST_CAPTURE_INFO "cudaStreamGetCaptureInfo_v3"
CAPTURE_INFO_FORMS(capture_info_v1, "cudaStreamGetCaptureInfo",
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id), status, id, nullptr,
                   nullptr, nullptr, nullptr)
CAPTURE_INFO_FORMS(capture_info_v2, "cudaStreamGetCaptureInfo_v2",
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                    const cudaGraphNode_t** dependencies, size_t* count),
                   status, id, graph, dependencies, nullptr, count)
#endif
CAPTURE_INFO_FORMS(capture_info_v3, NEWEST_CAPTURE_INFO,
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count),
                   status, id, graph, dependencies, edges, count)

// 12's two forms and 13's one differ in the edges.
#if SIMGPU_CUDART_MAJOR >= 13
#define UPDATE_DEPENDENCIES "cudaStreamUpdateCaptureDependencies"
#else
#define UPDATE_DEPENDENCIES "cudaStreamUpdateCaptureDependencies_v2"
EXPORT cudaError_t update_dependencies_v1(cudaStream_t stream, cudaGraphNode_t* dependencies, size_t count,
                                          unsigned int flags) __asm__("cudaStreamUpdateCaptureDependencies");
EXPORT cudaError_t update_dependencies_v1(cudaStream_t stream, cudaGraphNode_t* dependencies, size_t count,
                                          unsigned int flags) {
    return forward(driver_table(), [&](const DriverTable& cu) {
        return cu.cuStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count, flags);
    });
}
#endif
EXPORT cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                       const cudaGraphEdgeData* edges, size_t count,
                                       unsigned int flags) __asm__(UPDATE_DEPENDENCIES);
EXPORT cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                       const cudaGraphEdgeData* edges, size_t count, unsigned int flags) {
    return forward(driver_table(), [&](const DriverTable& cu) {
        return cu.cuStreamUpdateCaptureDependencies(stream, dependencies, as<const CUgraphEdgeData>(edges), count,
                                                    flags);
    });
}
