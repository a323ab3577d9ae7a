#include "objects.h"

#include <pthread.h>

#include <atomic>

#include "capture.h"

namespace simgpu {

namespace {
std::atomic<bool> g_forked{false};
thread_local int t_per_thread_streams = 0;

// The calling thread's T, destroyed with it. That of the main thread stays: exit handlers may still use CUDA, when the
// destructors of thread_local variables have run.
template <typename T>
T& own_of_thread() {
    static const pthread_key_t key = [] {
        pthread_key_t made{};
        pthread_key_create(&made, [](void* own) { delete static_cast<T*>(own); });
        return made;
    }();
    void* own = pthread_getspecific(key);
    if (own == nullptr) {
        own = new T;
        pthread_setspecific(key, own);
    }
    return *static_cast<T*>(own);
}
}  // namespace

void Moment::finish() {
    {
        std::lock_guard lock(mutex);
        done = true;
        time = std::chrono::steady_clock::now();
    }
    reached.notify_all();
}

bool Moment::is_done() {
    std::lock_guard lock(mutex);
    return done;
}

void Moment::wait() {
    std::unique_lock lock(mutex);
    reached.wait(lock, [&] { return done; });
}

PerThreadStreams::PerThreadStreams() { ++t_per_thread_streams; }
PerThreadStreams::~PerThreadStreams() { --t_per_thread_streams; }

Driver& driver() {
    static Driver* instance = [] {
        // A forked child has no workers and perhaps a lock held for ever: CUDA cannot be used there, as in reality.
        pthread_atfork(nullptr, nullptr, [] {
            if (driver().initialized) {
                g_forked = true;
            }
        });
        return new Driver;
    }();
    return *instance;
}

bool forked() { return g_forked; }

CUresult ready() { return g_forked || !driver().initialized ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS; }

std::vector<CUcontext>& context_stack() { return own_of_thread<std::vector<CUcontext>>(); }

CUcontext& current_context() {
    auto& stack = context_stack();
    if (stack.empty()) {
        stack.push_back(nullptr);
    }
    return stack.back();
}

CUresult require_context(CUcontext* out) {
    SIMGPU_TRY(ready());
    *out = context_stack().empty() ? nullptr : context_stack().back();
    if (!*out) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    std::lock_guard lock(driver().lock);
    return driver().contexts.count(*out) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

StreamRef make_stream(CUcontext context, unsigned flags, int priority) {
    auto stream = std::make_shared<CUstream_st>();
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = driver().next_id++;
    stream->queue = StreamQueue::start();
    driver().streams[stream.get()] = stream;
    return stream;
}

CUresult find_stream(CUstream handle, StreamRef* out) {
    CUcontext context = nullptr;
    if (handle == nullptr && t_per_thread_streams > 0) {
        handle = CU_STREAM_PER_THREAD;
    }
    if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        SIMGPU_TRY(require_context(&context));
        std::lock_guard lock(driver().lock);
        if (handle == CU_STREAM_PER_THREAD) {
            StreamRef& stream = own_of_thread<std::map<CUcontext, StreamRef>>()[context];
            if (!stream) {
                stream = make_stream(context, CU_STREAM_DEFAULT, 0);
            }
            *out = stream;
        } else {
            if (!context->legacy) {
                context->legacy = make_stream(context, CU_STREAM_DEFAULT, 0);
            }
            *out = context->legacy;
        }
        return CUDA_SUCCESS;
    }
    SIMGPU_TRY(ready());
    std::lock_guard lock(driver().lock);
    auto found = driver().streams.find(handle);
    if (found == driver().streams.end()) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = found->second;
    return CUDA_SUCCESS;
}

CUresult find_event(CUevent handle, EventRef* out) {
    SIMGPU_TRY(ready());
    std::lock_guard lock(driver().lock);
    auto found = driver().events.find(handle);
    if (found == driver().events.end()) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = found->second;
    return CUDA_SUCCESS;
}

bool device_can_reach(CUdeviceptr pointer, size_t bytes) {
    std::lock_guard lock(driver().lock);
    for (const auto* map : {&driver().allocations, &driver().registered}) {
        auto next = map->upper_bound(pointer);
        if (next != map->begin()) {
            const auto& [start, length] = *std::prev(next);
            if (pointer + bytes <= start + length) {
                return true;
            }
        }
    }
    return false;
}

namespace {

// Makes `stream` wait for what `before` holds now.
void order_after(const StreamRef& stream, const StreamRef& before) {
    const uint64_t ticket = before->queue->last_ticket();
    if (!before->queue->reached(ticket)) {
        stream->queue->enqueue([queue = before->queue, ticket] { queue->wait(ticket); });
    }
}

void apply_legacy_ordering(const StreamRef& stream) {
    const StreamRef legacy = stream->context->legacy;
    if (stream == legacy) {
        for (const auto& [handle, other] : driver().streams) {
            if (other != stream && other->context == stream->context && !(other->flags & CU_STREAM_NON_BLOCKING)) {
                order_after(stream, other);
            }
        }
    } else if (legacy && !(stream->flags & CU_STREAM_NON_BLOCKING)) {
        order_after(stream, legacy);
    }
}

}  // namespace

CUresult submit(const StreamRef& stream, CUgraphNodeType type, Work work, std::string name) {
    std::lock_guard lock(driver().lock);
    if (stream->capture) {
        return add_captured_node(stream, {type, std::move(work), std::move(name)});
    }
    if (stream == stream->context->legacy) {
        SIMGPU_TRY(check_legacy_use(stream->context));
    }
    apply_legacy_ordering(stream);
    stream->queue->enqueue(std::move(work));
    return CUDA_SUCCESS;
}

CUresult drain(const StreamRef& stream) {
    uint64_t ticket;
    {
        std::lock_guard lock(driver().lock);
        if (stream->capture) {
            return refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        SIMGPU_TRY(check_unsafe_call());
        if (stream == stream->context->legacy) {
            SIMGPU_TRY(check_legacy_use(stream->context));
            apply_legacy_ordering(stream);
        }
        ticket = stream->queue->last_ticket();
    }
    stream->queue->wait(ticket);
    return CUDA_SUCCESS;
}

CUresult drain_context(CUcontext context) {
    std::vector<std::pair<std::shared_ptr<StreamQueue>, uint64_t>> waits;
    {
        std::lock_guard lock(driver().lock);
        CUresult result = check_unsafe_call();
        for (const auto& [handle, stream] : driver().streams) {
            if (stream->capture && stream->context == context) {  // whatever the modes
                result = refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            }
        }
        if (result != CUDA_SUCCESS) {
            return result;
        }
        for (const auto& [handle, stream] : driver().streams) {
            if (stream->context == context) {
                waits.emplace_back(stream->queue, stream->queue->last_ticket());
            }
        }
    }
    for (auto& [queue, ticket] : waits) {
        queue->wait(ticket);
    }
    return CUDA_SUCCESS;
}

}  // namespace simgpu
