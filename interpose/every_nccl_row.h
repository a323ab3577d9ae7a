// Reads nccl.def with one meaning for all classes of rows: the includer defines
// TITAN_ROW(id, since, name, parameters, arguments, ...), which is undefined again here. No include guard, on purpose.
#define CALL TITAN_ROW
#define CREATE TITAN_ROW
#define CREATE_ALL TITAN_ROW
#define MARK TITAN_ROW
#define GROUP_START TITAN_ROW
#define GROUP_END TITAN_ROW
#define ASYNC_ERROR TITAN_ROW
#define GROW_ID TITAN_ROW
#include "nccl.def"
#undef CALL
#undef CREATE
#undef CREATE_ALL
#undef MARK
#undef GROUP_START
#undef GROUP_END
#undef ASYNC_ERROR
#undef GROW_ID
#undef TITAN_ROW
