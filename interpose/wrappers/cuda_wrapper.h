// The body of a CUDA wrapper, one macro per class of rows (cuda_runtime.def). Included once per vendor header, because
// cuda.h and cuda_runtime_api.h must not meet nccl.h's C++ templates. Beside what wrapper.h asks for, the includer
// defines TITAN_SUCCESS and TITAN_FUNCTION_KIND (what the function that it launches is to CUDA).
#pragma once

#include "entry_points.h"
#include "tracer/context_end.h"
#include "tracer/graphs.h"
#include "wrapper.h"

namespace titan::interpose {

using format::WorkKind;
using namespace tracer;

inline const void* address(uint64_t device_address) { return reinterpret_cast<const void*>(device_address); }
template <typename R, typename... A>
const void* address(R (*function)(A...)) {
    return reinterpret_cast<const void*>(function);
}

template <typename Handle>
const void* graph_or_null(bool success, const Handle* graph) {
    return success && graph != nullptr ? *graph : nullptr;
}

}  // namespace titan::interpose

// SCOPE: an object that lives around the whole call, even if it is not recorded.
#define TITAN_SCOPED_WRAPPER(name, params, args, SCOPE, ENTER, LEAVE) \
    TITAN_FUNCTION(name, params, SCOPE; TITAN_RECORDED(args, ENTER, LEAVE))

#define TITAN_SYNC(name, params, args, object)                                                           \
    TITAN_WRAPPER(name, params, args, cuda_is_interposed() && enter_cuda(call, TITAN_API(name), object), \
                  leave_cuda(call, static_cast<int>(result)))
#define TITAN_FORGET(name, params, args, object)                                                         \
    TITAN_WRAPPER(name, params, args,                                                                    \
                  (forget_kernels(), cuda_is_interposed() && enter_cuda(call, TITAN_API(name), object)), \
                  leave_cuda(call, static_cast<int>(result)))
#define TITAN_CONTEXT_END(name, params, args, object, ending)                                                   \
    TITAN_SCOPED_WRAPPER(name, params, args, const ContextEnd context_end(ending),                              \
                         (forget_kernels(), cuda_is_interposed() && enter_cuda(call, TITAN_API(name), object)), \
                         leave_cuda(call, static_cast<int>(result)))
// The usual way through is straight and ends with a jump: launches have a budget.
#define TITAN_LAUNCHED(args, ENTER, LEAVE_UNNAMED)                                 \
    const WorkState state = ENTER;                                                 \
    if (state == WorkState::kEntered) [[likely]] {                                 \
        return static_cast<TITAN_RESULT>(leave_work(static_cast<int>(real args))); \
    }                                                                              \
    if (state == WorkState::kNotRecorded) {                                        \
        return real args;                                                          \
    }                                                                              \
    const int result = static_cast<int>(real args);                                \
    return static_cast<TITAN_RESULT>(LEAVE_UNNAMED);
// Callers that asked for a pointer are mostly the runtime: its driver calls inside a recorded call need no stack frame.
#define TITAN_LAUNCH(name, params, args, ENTER, LEAVE_UNNAMED)                                          \
    extern "C" TITAN_RESULT exported_##name params __asm__(#name);                                      \
    extern "C" TITAN_RESULT exported_##name params {                                                    \
        TITAN_REAL(TITAN_MISSING_RESULT, name, find_real(Api::name, __builtin_return_address(0)))       \
        TITAN_LAUNCHED(args, ENTER, LEAVE_UNNAMED)                                                      \
    }                                                                                                   \
    template <unsigned Thunk>                                                                           \
    [[gnu::noinline]] TITAN_RESULT outer_thunk_##name params {                                          \
        TITAN_REAL(TITAN_MISSING_RESULT, name, real_behind<Thunk>(Api::name))                           \
        TITAN_LAUNCHED(args, ENTER, LEAVE_UNNAMED)                                                      \
    }                                                                                                   \
    template <unsigned Thunk>                                                                           \
    TITAN_RESULT thunk_##name params {                                                                  \
        auto* const real = reinterpret_cast<decltype(&exported_##name)>(real_behind<Thunk>(Api::name)); \
        if (is_nested() && real != nullptr) {                                                           \
            return real args;                                                                           \
        }                                                                                               \
        return outer_thunk_##name<Thunk> args;                                                          \
    }
#define TITAN_WORK(name, params, args, kind, on_stream, about, how_much)                                         \
    TITAN_LAUNCH(name, params, args,                                                                             \
                 enter_work(on_stream, about, TITAN_API(name), how_much, static_cast<uint64_t>(WorkKind::kind)), \
                 leave_work(result))
#define TITAN_KERNEL(name, params, args, on_stream, kernel_function, how_many)                            \
    TITAN_LAUNCH(name, params, args, enter_kernel(on_stream, kernel_function, TITAN_API(name), how_many), \
                 leave_unnamed(result, FunctionKind::TITAN_FUNCTION_KIND, kernel_function,                \
                               reinterpret_cast<const void*>(real)))
#define TITAN_QUERY(name, params, args, object)                                                           \
    TITAN_WRAPPER(name, params, args, cuda_is_interposed() && enter_query(call, TITAN_API(name), object), \
                  leave_query(call))
#define TITAN_MARK(name, params, args, object) \
    TITAN_WRAPPER(name, params, args, enter_cuda_mark(call, TITAN_API(name), object), leave_mark(call))
#define TITAN_BEFORE(name, params, args, object, note) \
    TITAN_WRAPPER(name, params, args, enter_cuda_mark(call, TITAN_API(name), object) && (note, true), leave_mark(call))
#define TITAN_AFTER(name, params, args, object, note)                                   \
    TITAN_WRAPPER(name, params, args, enter_cuda_mark(call, TITAN_API(name), object), { \
        if (result == TITAN_SUCCESS) {                                                  \
            note;                                                                       \
        }                                                                               \
        leave_mark(call);                                                               \
    })
#define TITAN_CAPTURE_END(name, params, args, on_stream, graph)                            \
    TITAN_WRAPPER(name, params, args, enter_cuda_mark(call, TITAN_API(name), on_stream), { \
        note_capture_ended(on_stream, graph_or_null(result == TITAN_SUCCESS, graph));      \
        leave_mark(call);                                                                  \
    })
#define TITAN_GRAPH_LAUNCH(name, params, args, exec, on_stream)                                   \
    TITAN_WRAPPER(name, params, args, enter_graph_launch(call, TITAN_API(name), exec, on_stream), \
                  leave_graph_launch(call, static_cast<int>(result)))
// Nothing is recorded of it. The driver functions that NCCL asks for stay real.
#define TITAN_ENTRY_POINT(name, params, args, symbol, function, version, per_thread)                                 \
    TITAN_FUNCTION(                                                                                                  \
        name, params, const TITAN_RESULT result = real args; if (result == TITAN_SUCCESS && (function) != nullptr) { \
            *(function) = hand_out_driver(symbol, *(function), static_cast<int>(version), per_thread,                \
                                          __builtin_return_address(0));                                              \
        } return result;)
