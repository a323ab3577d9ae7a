// Reads a CUDA table with one meaning for all classes of rows: the includer defines TITAN_ROW(name, ...), and TITAN_TABLE as
// the table's file name; both are undefined again here. No include guard, on purpose.
#define SYNC TITAN_ROW
#define WORK TITAN_ROW
#define KERNEL TITAN_ROW
#define COUNT TITAN_ROW
#define MARK TITAN_ROW
#define BEFORE TITAN_ROW
#define AFTER TITAN_ROW
#define CAPTURE_END TITAN_ROW
#define GRAPH_LAUNCH TITAN_ROW
#define ENTRY_POINT TITAN_ROW
#define FORGET TITAN_ROW
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
#undef CHANGED
#undef TITAN_ROW
#undef TITAN_TABLE
