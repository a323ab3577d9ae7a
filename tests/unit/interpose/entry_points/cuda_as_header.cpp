// What cuda.h means by the names in the table, row by row: its macros are read, nothing of it is called. Compiled
// twice.
#include <cuda.h>

#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)

extern const char* const TITAN_HEADER_NAMES[];
const char* const TITAN_HEADER_NAMES[] = {
#define TITAN_ROW(name, base, ...) TEXT(base),
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
};

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
extern const int header_cuda_version;
const int header_cuda_version = CUDA_VERSION;
#endif
