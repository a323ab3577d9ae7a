/* A second preloaded library, behind titantrace: it wraps malloc by dlsym, which it needs before any constructor has
 * run, and asks for what comes next after itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void* (*next_malloc)(size_t);

void* tool_next(const char* name) {
    void* const found = dlsym(RTLD_NEXT, name);
    __asm__ volatile("" ::: "memory"); /* no tail call: the caller must be this library */
    return found;
}

void* tool_next_version(const char* name, const char* version) {
    void* const found = dlvsym(RTLD_NEXT, name, version);
    __asm__ volatile("" ::: "memory");
    return found;
}

void* malloc(size_t bytes) {
    if (next_malloc == NULL) {
        *(void**)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    }
    return next_malloc(bytes);
}
