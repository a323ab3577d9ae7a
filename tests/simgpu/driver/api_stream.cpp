// Driver API: streams and host functions.

#include "capture.h"
#include "impl.h"

namespace simgpu::impl {

#define FIND_STREAM(handle)                                                             \
    StreamRef stream;                                                                   \
    if (const CUresult found = find_stream((handle), &stream); found != CUDA_SUCCESS) { \
        return found;                                                                   \
    }

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
    CUcontext context;
    SIMGPU_TRY(require_context(&context));
    if (!out || (flags & ~unsigned{CU_STREAM_NON_BLOCKING})) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::lock_guard lock(driver().lock);
    *out = make_stream(context, flags, priority).get();
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* out, unsigned int flags) { return impl::cuStreamCreateWithPriority(out, flags, 0); }

CUresult cuStreamDestroy_v2(CUstream handle) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    if (stream.get() != handle) {
        return CUDA_ERROR_INVALID_HANDLE;  // a default stream
    }
    if (stream->capture) {
        refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    stream->queue->close();  // work enqueued before still runs
    driver().streams.erase(handle);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
    FIND_STREAM(handle)
    return drain(stream);
}

CUresult cuStreamQuery(CUstream handle) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    if (stream->capture) {
        return refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUresult result = check_unsafe_call();
    if (result == CUDA_SUCCESS && stream == stream->context->legacy) {
        result = check_legacy_use(stream->context);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return stream->queue->reached(stream->queue->last_ticket()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
    FIND_STREAM(handle)
    *out = stream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
    if (green) {
        *green = nullptr;
    }
    return impl::cuStreamGetCtx(handle, out);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
    FIND_STREAM(handle)
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
    FIND_STREAM(handle)
    *id = stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
    FIND_STREAM(handle)
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
    FIND_STREAM(handle)
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags) {
    FIND_STREAM(handle)
    EventRef event;
    SIMGPU_TRY(find_event(event_handle, &event));
    std::shared_ptr<Moment> moment;
    {
        std::lock_guard lock(driver().lock);
        if (stream->capture && (flags & CU_EVENT_WAIT_EXTERNAL)) {
            return add_captured_node(stream,
                                     {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .run = {}, .name = {}, .awaits = event});
        }
        if (event->capture) {
            return join_capture(stream, event);
        }
        if (stream->capture) {
            return refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        }
        moment = event->moment;
    }
    if (!moment || moment->is_done()) {
        return CUDA_SUCCESS;
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [moment] { moment->wait(); });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
    if (!function) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    FIND_STREAM(handle)
    return submit(stream, CU_GRAPH_NODE_TYPE_HOST, [function, user_data] { function(user_data); });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user_data, unsigned int) {
    FIND_STREAM(handle)
    return submit(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { callback(handle, CUDA_SUCCESS, user_data); });
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr, size_t, unsigned int) {
    FIND_STREAM(handle) {
        std::lock_guard lock(driver().lock);
        if (stream->capture) {
            return refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_EMPTY, [] {});
}

}  // namespace simgpu::impl
