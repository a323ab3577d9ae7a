/* A framework's library that links its own copy of NCCL: built once per copy, loaded RTLD_LOCAL. */
#include <nccl.h>
#include <stddef.h>

#define API __attribute__((visibility("default")))

API int user_version(void) {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : -1;
}

API int user_reduce(void) {
    int got = -1;
    ncclGroupStart();
    ncclAllReduce(NULL, &got, 1, ncclInt32, ncclSum, NULL, NULL);
    ncclGroupEnd();
    return got;
}

#if TINY_NUMBER == 1
/* 2.28 has it, this copy does not. Lazy binding leaves that to the first call. */
API int user_newer(void) { return (int)ncclAlltoAll(NULL, NULL, 1, ncclInt32, NULL, NULL); }
#endif
