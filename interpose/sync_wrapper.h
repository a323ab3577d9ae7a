// The shape of a wrapper around a call that blocks the host until the device gets somewhere. Included once per vendor
// header, because cuda.h and cuda_runtime_api.h must not meet nccl.h's C++ templates. The includer defines TITAN_RESULT
// (the API's result type) and TITAN_MISSING_RESULT (what it returns where no loaded library has the function).
#pragma once

#include "api.h"
#include "real.h"
#include "tracer/record.h"

#define SYNC(id, name, params, args, object)                                                              \
    extern "C" TITAN_RESULT name params;                                                                  \
    extern "C" TITAN_RESULT name params {                                                                 \
        using titan::interpose::Api;                                                                      \
        using Real = decltype(name);                                                                      \
        auto* const real =                                                                                \
            reinterpret_cast<Real*>(titan::interpose::find_real(Api::name, __builtin_return_address(0))); \
        if (real == nullptr) {                                                                            \
            return TITAN_MISSING_RESULT;                                                                  \
        }                                                                                                 \
        titan::tracer::Call call;                                                                         \
        if (!titan::tracer::enter_cuda(call, static_cast<uint16_t>(Api::name), object)) {                 \
            return real args;                                                                             \
        }                                                                                                 \
        const TITAN_RESULT result = real args;                                                            \
        titan::tracer::leave_cuda(call, static_cast<int>(result));                                        \
        return result;                                                                                    \
    }
