// The NCCL wrappers: the only file that knows their shape. A wrapper finds the function that its caller would have
// reached, tells the tracer, calls it, tells the tracer again, and hands the result through untouched.
#include "nccl_types.h"

#include "api.h"
#include "nccl_copies.h"
#include "real.h"
#include "thunks.h"
#include "tracer/record.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"            // of the rows, in `missing`
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"  // rows name the fields that their call has

using titan::format::OpKind;
using titan::interpose::Api;
using titan::tracer::Call;

// The table against the vendor's header: a row whose parameters differ from nccl.h does not compile.
extern "C" {
#define TITAN_ROW(id, since, name, params, ...) ncclResult_t name params;
#include "every_nccl_row.h"
}

namespace {

constexpr int kUserReduction = ncclNumOps;

void** handle(ncclComm_t* comm) { return reinterpret_cast<void**>(comm); }

// What the caller gets where no loaded library has the function: NCCL's own word for a call it cannot serve.
namespace missing {
#define TITAN_ROW(id, since, name, params, ...) \
    ncclResult_t name params { return ncclInvalidUsage; }
#include "every_nccl_row.h"
}  // namespace missing

template <typename Function>
Function* find(Api api, const void* return_address, Function* if_missing) {
    void* const real = titan::interpose::find_real(api, return_address);
    return real != nullptr ? reinterpret_cast<Function*>(real) : if_missing;
}

}  // namespace

#define TITAN_PLT(name) find(Api::name, __builtin_return_address(0), &missing::name)
#define TITAN_THUNK(name) reinterpret_cast<decltype(&missing::name)>(titan::interpose::real_behind<Thunk>(Api::name))
#define TITAN_API(name) static_cast<uint16_t>(Api::name)

// Every wrapper is made twice: the exported function, and one per thunk for callers that asked for a pointer
// (thunks.h). ENTER and LEAVE are what differs between the classes of rows.
#define TITAN_BODY(REAL, args, ENTER, LEAVE)   \
    {                                          \
        auto* const real = REAL;               \
        Call call;                             \
        if (!(ENTER)) {                        \
            return real args;                  \
        }                                      \
        const ncclResult_t result = real args; \
        LEAVE;                                 \
        return result;                         \
    }
#define TITAN_WRAPPER(name, params, args, ENTER, LEAVE)                                                           \
    extern "C" ncclResult_t name params TITAN_BODY(TITAN_PLT(name), args, ENTER, LEAVE) template <unsigned Thunk> \
    ncclResult_t thunk_##name params TITAN_BODY(TITAN_THUNK(name), args, ENTER, LEAVE)

#define CALL(id, since, name, params, args, ...) \
    TITAN_WRAPPER(name, params, args, enter_call(call, TITAN_API(name), {__VA_ARGS__}), leave_call(call, result))
#define CREATE(id, since, name, params, args, ...)                                                                     \
    TITAN_WRAPPER(name, params, args,                                                                                  \
                  enter_create(call, TITAN_API(name),                                                                  \
                               {__VA_ARGS__, .queries = titan::interpose::queries_of(reinterpret_cast<void*>(real))}), \
                  leave_create(call, handle(newcomm), result))
#define CREATE_ALL(id, since, name, params, args)                                                \
    TITAN_WRAPPER(name, params, args,                                                            \
                  enter_create_all(call, TITAN_API(name), ndev, devlist,                         \
                                   titan::interpose::queries_of(reinterpret_cast<void*>(real))), \
                  leave_create_all(call, handle(comm), ndev, result))
#define MARK(id, since, name, params, args) \
    TITAN_WRAPPER(name, params, args, enter_mark(call, TITAN_API(name), nullptr), leave_mark(call))
#define GROUP_START(id, since, name, params, args) \
    TITAN_WRAPPER(name, params, args, enter_group_start(call), leave_group_start(call, result))
#define GROUP_END(id, since, name, params, args, simulate) \
    TITAN_WRAPPER(name, params, args, enter_group_end(call, TITAN_API(name), simulate), leave_group_end(call, result))
#define TITAN_ASK_ERROR(REAL, args)                                                                       \
    {                                                                                                     \
        const ncclResult_t result = REAL args;                                                            \
        titan::tracer::note_async_error(comm, result, asyncError != nullptr ? *asyncError : ncclSuccess); \
        return result;                                                                                    \
    }
#define ASYNC_ERROR(id, since, name, params, args)                                                       \
    extern "C" ncclResult_t name params TITAN_ASK_ERROR(TITAN_PLT(name), args) template <unsigned Thunk> \
    ncclResult_t thunk_##name params TITAN_ASK_ERROR(TITAN_THUNK(name), args)
#define TITAN_ASK_GROW_ID(REAL, args)                    \
    {                                                    \
        const ncclResult_t result = REAL args;           \
        if (result == ncclSuccess) {                     \
            titan::tracer::note_grow_id(comm, uniqueId); \
        }                                                \
        return result;                                   \
    }
#define GROW_ID(id, since, name, params, args)                                                             \
    extern "C" ncclResult_t name params TITAN_ASK_GROW_ID(TITAN_PLT(name), args) template <unsigned Thunk> \
    ncclResult_t thunk_##name params TITAN_ASK_GROW_ID(TITAN_THUNK(name), args)

using namespace titan::tracer;

#include "nccl.def"
#undef CALL
#undef CREATE
#undef CREATE_ALL
#undef MARK
#undef GROUP_START
#undef GROUP_END
#undef ASYNC_ERROR
#undef GROW_ID

namespace titan::interpose {

namespace {

const ThunkSet thunks[] = {
#define TITAN_ROW(id, since, name, ...)                                                             \
    {nullptr, reinterpret_cast<void*>(&thunk_##name<1>), reinterpret_cast<void*>(&thunk_##name<2>), \
     reinterpret_cast<void*>(&thunk_##name<3>)},
#include "every_nccl_row.h"
};

}  // namespace

const ThunkSet* const nccl_thunks = thunks;

}  // namespace titan::interpose
