// Reads a table, TITAN_TABLE: the one list of all classes of rows. The includer defines TITAN_ROW(first columns, ...),
// one meaning for all of them, or TITAN_CLASS(CLASS, first columns, ...), one for each; all are undefined again here.
// No include guard, on purpose.
#ifndef TITAN_CLASS
#define TITAN_CLASS(CLASS, ...) TITAN_ROW(__VA_ARGS__)
#endif
// nccl.def
#define CALL(...) TITAN_CLASS(CALL, __VA_ARGS__)
#define CREATE(...) TITAN_CLASS(CREATE, __VA_ARGS__)
#define CREATE_ALL(...) TITAN_CLASS(CREATE_ALL, __VA_ARGS__)
#define GROUP_START(...) TITAN_CLASS(GROUP_START, __VA_ARGS__)
#define GROUP_END(...) TITAN_CLASS(GROUP_END, __VA_ARGS__)
#define ASYNC_ERROR(...) TITAN_CLASS(ASYNC_ERROR, __VA_ARGS__)
#define GROW_ID(...) TITAN_CLASS(GROW_ID, __VA_ARGS__)
#define LAST_ERROR(...) TITAN_CLASS(LAST_ERROR, __VA_ARGS__)
// all
#define MARK(...) TITAN_CLASS(MARK, __VA_ARGS__)
#define SYNC(...) TITAN_CLASS(SYNC, __VA_ARGS__)
// cuda_runtime.def, cuda_driver.def
#define WORK(...) TITAN_CLASS(WORK, __VA_ARGS__)
#define KERNEL(...) TITAN_CLASS(KERNEL, __VA_ARGS__)
#define QUERY(...) TITAN_CLASS(QUERY, __VA_ARGS__)
#define BEFORE(...) TITAN_CLASS(BEFORE, __VA_ARGS__)
#define AFTER(...) TITAN_CLASS(AFTER, __VA_ARGS__)
#define CAPTURE_END(...) TITAN_CLASS(CAPTURE_END, __VA_ARGS__)
#define GRAPH_LAUNCH(...) TITAN_CLASS(GRAPH_LAUNCH, __VA_ARGS__)
#define ENTRY_POINT(...) TITAN_CLASS(ENTRY_POINT, __VA_ARGS__)
#define FORGET(...) TITAN_CLASS(FORGET, __VA_ARGS__)
#define CONTEXT_END(...) TITAN_CLASS(CONTEXT_END, __VA_ARGS__)
#ifndef CHANGED
#define CHANGED(ROW, ...) ROW(__VA_ARGS__)
#endif
#include TITAN_TABLE
#undef CALL
#undef CREATE
#undef CREATE_ALL
#undef GROUP_START
#undef GROUP_END
#undef ASYNC_ERROR
#undef GROW_ID
#undef LAST_ERROR
#undef MARK
#undef SYNC
#undef WORK
#undef KERNEL
#undef QUERY
#undef BEFORE
#undef AFTER
#undef CAPTURE_END
#undef GRAPH_LAUNCH
#undef ENTRY_POINT
#undef FORGET
#undef CONTEXT_END
#undef CHANGED
#undef TITAN_CLASS
#undef TITAN_ROW
#undef TITAN_TABLE
