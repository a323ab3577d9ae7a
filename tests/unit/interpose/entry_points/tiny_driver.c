/* The names of a driver: each form that the table has, and one that is newer than the table. */
#define TITAN_ROW(name, ...) \
    int name(void) { return 0; }
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
int cuStreamWaitValue32_v9(void) { return 0; }
