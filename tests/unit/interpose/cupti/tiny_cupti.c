/* As much of libcupti as a subscriber of API callbacks meets: a few callbacks by CUPTI's own numbers and names, one
 * subscriber, and a function by which the test plays CUDA. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct row {
    int domain;
    uint32_t id;
    const char* name;
};
static const struct row rows[] = {
    {1, 126, "cuStreamSynchronize"},         {1, 307, "cuLaunchKernel"},
    {1, 295, "cuStreamWaitEvent"},           {1, 4, "cuDeviceGetCount"},
    {2, 131, "cudaStreamSynchronize_v3020"}, {2, 211, "cudaLaunchKernel_v7000"},
    {2, 135, "cudaEventRecord_v3020"},       {2, 41, "cudaMemcpyAsync_v3020"},
    {2, 138, "cudaEventQuery_v3020"},        {2, 239, "cudaStreamSynchronize_ptsz_v7000"},
    {2, 3, "cudaGetDeviceCount_v3020"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void (*callback)(void*, int, uint32_t, const void*);
static int enabled[ROWS];

int cuptiSubscribe(void** subscriber, void (*function)(void*, int, uint32_t, const void*), void* user) {
    (void)user;
    if (getenv("TINY_CUPTI_TAKEN") != NULL || callback != NULL) {
        return 39;
    }
    callback = function;
    *subscriber = &callback;
    return 0;
}

int cuptiGetCallbackName(int domain, uint32_t id, const char** name) {
    for (int i = 0; i < ROWS; ++i) {
        if (rows[i].domain == domain && rows[i].id == id) {
            *name = rows[i].name;
            return 0;
        }
    }
    return 1;
}

int cuptiEnableCallback(uint32_t enable, void* subscriber, int domain, uint32_t id) {
    for (int i = 0; i < ROWS; ++i) {
        if (subscriber == (void*)&callback && rows[i].domain == domain && rows[i].id == id) {
            enabled[i] = (int)enable;
            return 0;
        }
    }
    return 1;
}

/* One side of a call, if it is enabled. */
int tiny_cupti_tell(int domain, uint32_t id, const void* data) {
    for (int i = 0; i < ROWS; ++i) {
        if (rows[i].domain == domain && rows[i].id == id && enabled[i] && callback != NULL) {
            callback(NULL, domain, id, data);
            return 1;
        }
    }
    return 0;
}
