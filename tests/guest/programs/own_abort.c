// An abort that comes before libc's, as ThreadSanitizer's runtime and crash reporters have one.
#define _GNU_SOURCE
#include <dlfcn.h>

__attribute__((visibility("default"), noreturn)) void abort(void) {
    void (*real)(void) = 0;
    *(void**)&real = dlsym(RTLD_NEXT, "abort");
    real();
    __builtin_unreachable();
}
