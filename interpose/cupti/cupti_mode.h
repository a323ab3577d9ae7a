// CUDA calls as CUPTI's callbacks report them (TITANTRACE_CUDA=cupti), including those of callers that reach no
// wrapper.
//
// The rows are those of cuda_runtime.def and cuda_driver.def that record something. CUPTI is opened at run time, never
// linked.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "tracer/record.h"

namespace titan::interpose {

// Takes CUPTI if nobody else has it. False, and said once why, when the wrappers must do it. cold.
bool start_cupti();

// The callback that the calling thread is in.
struct CuptiCallback {
    tracer::Call* call;
    int result;
    const char* symbol;  // the kernel's name, or null
};
[[gnu::visibility("hidden")]] extern constinit thread_local CuptiCallback cupti_callback
    __attribute__((tls_model("initial-exec")));

struct CuptiRow {
    const char* name;
    bool (*enter)(const void* parameters);
    void (*leave)(const void* parameters);
};
struct CuptiRows {
    const CuptiRow* rows;
    size_t count;
};
extern const CuptiRows runtime_cupti_rows;
extern const CuptiRows driver_cupti_rows;

// CUPTI hands over a structure with one member per parameter: where the n-th lies.
template <typename... A>
constexpr size_t offset_of_parameter(size_t n) {
    constexpr size_t kSizes[] = {sizeof(A)..., 0};
    constexpr size_t kAlignments[] = {alignof(A)..., 1};
    size_t at = 0;
    for (size_t i = 0; i <= n; ++i) {
        at = (at + kAlignments[i] - 1) / kAlignments[i] * kAlignments[i];
        at += i < n ? kSizes[i] : 0;
    }
    return at;
}

template <typename T>
T parameter_at(const void* parameters, size_t offset) {
    T value;
    memcpy(static_cast<void*>(&value), static_cast<const char*>(parameters) + offset, sizeof(value));
    return value;
}

template <typename R, typename... A>
R unpack(R (*function)(A...), const void* parameters) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
        return function(parameter_at<A>(parameters, offset_of_parameter<A...>(I))...);
    }
    (std::index_sequence_for<A...>{});
}

}  // namespace titan::interpose
