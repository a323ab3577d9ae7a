// The rows of a CUDA table as CUPTI's callbacks see them. Included at the end of each file of wrappers, because the
// rows use its helpers. The includer defines TITAN_CUPTI_TABLE (the table) and TITAN_CUPTI_ROWS (what to call the
// rows). No include guard, on purpose.
//
// A row's words name its parameters: so each row becomes a pair of functions of just these parameters, and what else
// they need is the callback's (CuptiCallback).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // enter and leave each use only some of them

#define TITAN_CUPTI_PAIR(name, params, ENTER, LEAVE)                   \
    struct At_##name {                                                 \
        static bool enter params {                                     \
            [[maybe_unused]] Call& call = *cupti_callback.call;        \
            return ENTER;                                              \
        }                                                              \
        static void leave params {                                     \
            [[maybe_unused]] Call& call = *cupti_callback.call;        \
            [[maybe_unused]] const int result = cupti_callback.result; \
            LEAVE;                                                     \
        }                                                              \
    };

#define TITAN_CUPTI_SYNC(name, params, args, object) \
    TITAN_CUPTI_PAIR(name, params, enter_cuda(call, TITAN_API(name), object), leave_cuda(call, result))
#define TITAN_CUPTI_FORGET(name, params, args, object)                                            \
    TITAN_CUPTI_PAIR(name, params, (forget_kernels(), enter_cuda(call, TITAN_API(name), object)), \
                     leave_cuda(call, result))
#define TITAN_CUPTI_CONTEXT_END(name, params, args, object, ending) TITAN_CUPTI_FORGET(name, params, args, object)
#define TITAN_CUPTI_TOLD(name, params, work_kind, on_stream, about, how_much, symbol)                               \
    TITAN_CUPTI_PAIR(                                                                                               \
        name, params,                                                                                               \
        enter_reported_work(                                                                                        \
            call, TITAN_API(name),                                                                                  \
            {.kind = WorkKind::work_kind, .stream = (on_stream), .object = (about), .amount = (how_much)}, symbol), \
        leave_reported_work(call))
#define TITAN_CUPTI_WORK(name, params, args, work_kind, on_stream, about, how_much) \
    TITAN_CUPTI_TOLD(name, params, work_kind, on_stream, about, how_much, nullptr)
#define TITAN_CUPTI_KERNEL(name, params, args, on_stream, kernel_function, how_many) \
    TITAN_CUPTI_TOLD(name, params, kKernel, on_stream, kernel_function, how_many, cupti_callback.symbol)
#define TITAN_CUPTI_QUERY(name, params, args, object) \
    TITAN_CUPTI_PAIR(name, params, enter_query(call, TITAN_API(name), object), leave_query(call))
#define TITAN_CUPTI_GRAPH(name, params, args, exec, on_stream)                                 \
    TITAN_CUPTI_PAIR(name, params, enter_graph_launch(call, TITAN_API(name), exec, on_stream), \
                     leave_graph_launch(call, result))
#define TITAN_CUPTI_NONE(...)

#define SYNC(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_SYNC, name, __VA_ARGS__)
#define WORK(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_WORK, name, __VA_ARGS__)
#define KERNEL(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_KERNEL, name, __VA_ARGS__)
#define QUERY(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_QUERY, name, __VA_ARGS__)
#define FORGET(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_FORGET, name, __VA_ARGS__)
#define CONTEXT_END(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_CONTEXT_END, name, __VA_ARGS__)
#define GRAPH_LAUNCH(name, ...) TITAN_CUPTI_COLUMNS(TITAN_CUPTI_GRAPH, name, __VA_ARGS__)
#define MARK TITAN_CUPTI_NONE
#define BEFORE TITAN_CUPTI_NONE
#define AFTER TITAN_CUPTI_NONE
#define CAPTURE_END TITAN_CUPTI_NONE
#define ENTRY_POINT TITAN_CUPTI_NONE
// A function whose parameters changed has several callbacks under one name: left to the wrappers.
#define CHANGED(...)

namespace titan::interpose {

namespace {

namespace cupti_rows {

#include TITAN_CUPTI_TABLE

#undef SYNC
#undef WORK
#undef KERNEL
#undef QUERY
#undef FORGET
#undef CONTEXT_END
#undef GRAPH_LAUNCH
#define TITAN_CUPTI_ENTRY(name, ...)                                                      \
    {#name, [](const void* parameters) { return unpack(&At_##name::enter, parameters); }, \
     [](const void* parameters) { unpack(&At_##name::leave, parameters); }},
#define SYNC TITAN_CUPTI_ENTRY
#define WORK TITAN_CUPTI_ENTRY
#define KERNEL TITAN_CUPTI_ENTRY
#define QUERY TITAN_CUPTI_ENTRY
#define FORGET TITAN_CUPTI_ENTRY
#define CONTEXT_END TITAN_CUPTI_ENTRY
#define GRAPH_LAUNCH TITAN_CUPTI_ENTRY

const CuptiRow all[] = {
#include TITAN_CUPTI_TABLE
};

}  // namespace cupti_rows

}  // namespace

const CuptiRows TITAN_CUPTI_ROWS{cupti_rows::all, sizeof(cupti_rows::all) / sizeof(cupti_rows::all[0])};

}  // namespace titan::interpose

#undef SYNC
#undef WORK
#undef KERNEL
#undef QUERY
#undef FORGET
#undef CONTEXT_END
#undef GRAPH_LAUNCH
#undef MARK
#undef BEFORE
#undef AFTER
#undef CAPTURE_END
#undef ENTRY_POINT
#undef CHANGED

#pragma GCC diagnostic pop
