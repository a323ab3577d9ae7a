// Reads a CUDA table, TITAN_TABLE: the one list of all classes of rows. The includer defines TITAN_ROW(name, ...), one
// meaning for all of them, or TITAN_CLASS(CLASS, name, ...), one for each; all are undefined again here. No include
// guard, on purpose.
#ifndef TITAN_CLASS
#define TITAN_CLASS(CLASS, ...) TITAN_ROW(__VA_ARGS__)
#endif
#define SYNC(...) TITAN_CLASS(SYNC, __VA_ARGS__)
#define WORK(...) TITAN_CLASS(WORK, __VA_ARGS__)
#define KERNEL(...) TITAN_CLASS(KERNEL, __VA_ARGS__)
#define COUNT(...) TITAN_CLASS(COUNT, __VA_ARGS__)
#define MARK(...) TITAN_CLASS(MARK, __VA_ARGS__)
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
#undef SYNC
#undef WORK
#undef KERNEL
#undef COUNT
#undef MARK
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
