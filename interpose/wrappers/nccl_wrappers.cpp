// The NCCL wrappers: the only file that knows what each class of rows does. A wrapper finds the function that its
// caller would have reached, tells the tracer, calls it, tells the tracer again, and hands the result through
// untouched.
#include "nccl_types.h"

#include "nccl_copies.h"

#define TITAN_RESULT ncclResult_t
#define TITAN_MISSING_RESULT ncclInvalidUsage  // NCCL's own word for a call that it cannot serve
#include "wrapper.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"  // rows name the fields that their call has

// The table against the vendor's header: a row whose parameters differ from nccl.h does not compile.
#define TITAN_RESULT_OF_CALL ncclResult_t
#define TITAN_RESULT_OF_CREATE ncclResult_t
#define TITAN_RESULT_OF_CREATE_ALL ncclResult_t
#define TITAN_RESULT_OF_MARK ncclResult_t
#define TITAN_RESULT_OF_SYNC ncclResult_t
#define TITAN_RESULT_OF_GROUP_START ncclResult_t
#define TITAN_RESULT_OF_GROUP_END ncclResult_t
#define TITAN_RESULT_OF_ASYNC_ERROR ncclResult_t
#define TITAN_RESULT_OF_GROW_ID ncclResult_t
#define TITAN_RESULT_OF_LAST_ERROR const char*
extern "C" {
#define TITAN_CLASS(CLASS, id, since, name, params, ...) TITAN_RESULT_OF_##CLASS name params;
#define TITAN_TABLE "nccl.def"
#include "every_row.h"
}

namespace titan::interpose {

using format::OpKind;
using namespace tracer;

namespace {

constexpr int kUserReduction = ncclNumOps;

void** handle(ncclComm_t* comm) { return reinterpret_cast<void**>(comm); }

}  // namespace

#define TITAN_CALL(name, params, args, ...) \
    TITAN_WRAPPER(name, params, args, enter_call(call, TITAN_API(name), {__VA_ARGS__}), leave_call(call, result))
#define TITAN_CREATE(name, params, args, ...)                                                                     \
    TITAN_WRAPPER(                                                                                                \
        name, params, args,                                                                                       \
        enter_create(call, TITAN_API(name), {__VA_ARGS__, .queries = queries_of(reinterpret_cast<void*>(real))}), \
        leave_create(call, handle(newcomm), result))
#define TITAN_CREATE_ALL(name, params, args)                                                                         \
    TITAN_WRAPPER(name, params, args,                                                                                \
                  enter_create_all(call, TITAN_API(name), ndev, devlist, queries_of(reinterpret_cast<void*>(real))), \
                  leave_create_all(call, handle(comm), ndev, result))
#define TITAN_MARK(name, params, args) \
    TITAN_WRAPPER(name, params, args, enter_mark(call, TITAN_API(name), nullptr), leave_mark(call))
#define TITAN_SYNC(name, params, args, object)                                                           \
    TITAN_WRAPPER(name, params, args, cuda_is_interposed() && enter_cuda(call, TITAN_API(name), object), \
                  leave_cuda(call, result))
#define TITAN_GROUP_START(name, params, args) \
    TITAN_WRAPPER(name, params, args, enter_group_start(call), leave_group_start(call, result))
#define TITAN_GROUP_END(name, params, args, simulate) \
    TITAN_WRAPPER(name, params, args, enter_group_end(call, TITAN_API(name), simulate), leave_group_end(call, result))
// NCCL asks this itself, by its exported name, in every call on a communicator: also in what the tracer asks it.
#define TITAN_ASYNC_ERROR(name, params, args)                                                       \
    TITAN_FUNCTION(                                                                                 \
        name, params, if (is_nested()) { return real args; } const ncclResult_t result = real args; \
        note_async_error(comm, result, asyncError != nullptr ? *asyncError : ncclSuccess); return result;)
#define TITAN_GROW_ID(name, params, args)                    \
    TITAN_FUNCTION(                                          \
        name, params, const ncclResult_t result = real args; \
        if (result == ncclSuccess) { note_grow_id(comm, uniqueId); } return result;)
#define TITAN_LAST_ERROR(name, params, args)                                                                        \
    TITAN_FUNCTION_OF(const char*, "", name, params, const char* const result = real args; note_last_error(result); \
                      return result;)

#define TITAN_CLASS(CLASS, id, since, ...) TITAN_##CLASS(__VA_ARGS__)
#define TITAN_TABLE "nccl.def"
#include "every_row.h"

namespace {

const ThunkSet thunks[] = {
#define TITAN_ROW(id, since, name, ...) TITAN_THUNKS(name),
#define TITAN_TABLE "nccl.def"
#include "every_row.h"
};

}  // namespace

const ThunkSet* const nccl_thunks = thunks;

}  // namespace titan::interpose
