// Driver API: events.
#include "capture.h"
#include "impl.h"

namespace simgpu::impl {

#define FIND_EVENT(handle)                                                            \
    EventRef event;                                                                   \
    if (const CUresult found = find_event((handle), &event); found != CUDA_SUCCESS) { \
        return found;                                                                 \
    }

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
    CUcontext context;
    SIMGPU_TRY(require_context(&context));
    auto event = std::make_shared<CUevent_st>();
    event->flags = flags;
    event->context = context;
    std::lock_guard lock(driver().lock);
    *out = event.get();
    driver().events[*out] = std::move(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
    FIND_EVENT(handle)
    std::lock_guard lock(driver().lock);
    driver().events.erase(handle);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags) {
    FIND_EVENT(handle)
    StreamRef stream;
    SIMGPU_TRY(find_stream(stream_handle, &stream));
    if (stream->context != event->context) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    auto moment = std::make_shared<Moment>();
    {
        std::lock_guard lock(driver().lock);
        if (stream->capture) {
            if (stream->capture->invalidated) {
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            }
            if (flags & CU_EVENT_RECORD_EXTERNAL) {
                // Keeps its meaning outside of the graph: a node that completes the event at each launch.
                event->capture.reset();
                return add_captured_node(
                    stream, {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .run = {}, .name = {}, .records = event});
            }
            event->capture = stream->capture;
            event->capture_tail = stream->capture_tail;
            return CUDA_SUCCESS;
        }
        event->capture.reset();
        event->capture_tail.clear();
        event->moment = moment;
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, [moment] { moment->finish(); });
}

CUresult cuEventRecord(CUevent handle, CUstream stream) { return impl::cuEventRecordWithFlags(handle, stream, 0); }

namespace {

CUresult check_host_use(const EventRef& event, std::shared_ptr<Moment>* moment) {
    std::lock_guard lock(driver().lock);
    if (event->capture) {
        return refuse(event->capture, CUDA_ERROR_CAPTURED_EVENT);
    }
    *moment = event->moment;
    return check_unsafe_call();
}

}  // namespace

CUresult cuEventQuery(CUevent handle) {
    FIND_EVENT(handle)
    std::shared_ptr<Moment> moment;
    SIMGPU_TRY(check_host_use(event, &moment));
    return !moment || moment->is_done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
    FIND_EVENT(handle)
    std::shared_ptr<Moment> moment;
    SIMGPU_TRY(check_host_use(event, &moment));
    if (moment) {
        moment->wait();
    }
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    EventRef refs[2];
    std::shared_ptr<Moment> moments[2];
    const CUevent handles[2] = {start, end};
    for (int i = 0; i < 2; ++i) {
        SIMGPU_TRY(find_event(handles[i], &refs[i]));
        std::lock_guard lock(driver().lock);
        if ((refs[i]->flags & CU_EVENT_DISABLE_TIMING) || !refs[i]->moment || refs[i]->capture) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        moments[i] = refs[i]->moment;
    }
    if (!moments[0]->is_done() || !moments[1]->is_done()) {
        return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(moments[1]->time - moments[0]->time).count();
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    return impl::cuEventElapsedTime_v2(milliseconds, start, end);
}

}  // namespace simgpu::impl
