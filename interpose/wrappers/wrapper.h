// The shape of every wrapper. The includer defines TITAN_RESULT (the API's result type) and TITAN_MISSING_RESULT (what
// a wrapper returns where no loaded library has the function).
//
// The exported functions have C++ names of their own and get the vendor's by an assembler label: so a row may differ
// from what the installed header declares under that name.
#pragma once

#include "api.h"
#include "real.h"
#include "thunks.h"
#include "tracer/record.h"

#define TITAN_API(name) static_cast<uint16_t>(Api::name)

// Names the function behind the wrapper `real`, or leaves.
#define TITAN_REAL(MISSING, name, REAL)                                    \
    auto* const real = reinterpret_cast<decltype(&exported_##name)>(REAL); \
    if (real == nullptr) [[unlikely]] {                                    \
        return MISSING;                                                    \
    }

// Every wrapper is made twice: the exported function, and one per thunk for callers that asked for a pointer
// (thunks.h). The code that follows the arguments knows `real` and the row's parameters.
#define TITAN_FUNCTION_OF(RESULT, MISSING, name, params, ...)                        \
    extern "C" RESULT exported_##name params __asm__(#name);                         \
    extern "C" RESULT exported_##name params {                                       \
        TITAN_REAL(MISSING, name, find_real(Api::name, __builtin_return_address(0))) \
        __VA_ARGS__                                                                  \
    }                                                                                \
    template <unsigned Thunk>                                                        \
    RESULT thunk_##name params {                                                     \
        TITAN_REAL(MISSING, name, real_behind<Thunk>(Api::name))                     \
        __VA_ARGS__                                                                  \
    }
#define TITAN_FUNCTION(name, params, ...) \
    TITAN_FUNCTION_OF(TITAN_RESULT, TITAN_MISSING_RESULT, name, params, __VA_ARGS__)

// Calls the function between ENTER and LEAVE; ENTER says whether the call is recorded.
#define TITAN_RECORDED(args, ENTER, LEAVE) \
    Call call;                             \
    if (!(ENTER)) {                        \
        return real args;                  \
    }                                      \
    const TITAN_RESULT result = real args; \
    LEAVE;                                 \
    return result;

#define TITAN_WRAPPER(name, params, args, ENTER, LEAVE) \
    TITAN_FUNCTION_OF(TITAN_RESULT, TITAN_MISSING_RESULT, name, params, TITAN_RECORDED(args, ENTER, LEAVE))

#define TITAN_THUNKS(name)                                                                             \
    {                                                                                                  \
        nullptr, reinterpret_cast<void*>(&thunk_##name<1>), reinterpret_cast<void*>(&thunk_##name<2>), \
            reinterpret_cast<void*>(&thunk_##name<3>)                                                  \
    }
