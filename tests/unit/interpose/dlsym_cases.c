/* What dlsym and dlvsym answer, one line per question: "QUESTION: FILE OF THE ANSWER" or "QUESTION: null, ERROR".
 * `dlsym_cases LIBNCCL COPY...`: run with and without the preload, and compared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern void* tool_next(const char* name) __attribute__((weak)); /* of the second preloaded library */
extern void* tool_next_version(const char* name, const char* version) __attribute__((weak));

static void answer(const char* question, void* found) {
    const char* const error = dlerror();
    Dl_info object;
    if (found == NULL) {
        printf("%s: null, %s\n", question, error != NULL ? error : "no error");
    } else if (dladdr(found, &object) == 0) {
        printf("%s: nowhere\n", question);
    } else {
        const char* const slash = strrchr(object.dli_fname, '/');
        printf("%s: %s%s\n", question, slash != NULL ? slash + 1 : object.dli_fname,
               error != NULL ? ", and an error" : "");
    }
}

static void* open_library(const char* path) {
    void* const library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
        printf("%s\n", dlerror());
    }
    return library;
}

int main(int argc, char** argv) {
    void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void* const nccl = open_library(argv[1]);
    if (libc == NULL || nccl == NULL) {
        return 1;
    }
    answer("foreign name by handle", dlsym(libc, "getpid"));
    answer("foreign name next", dlsym(RTLD_NEXT, "getpid"));
    answer("foreign name default", dlsym(RTLD_DEFAULT, "getpid"));
    answer("foreign name missing", dlsym(libc, "no_such_name"));
    answer("foreign name missing, like ours", dlsym(nccl, "ncclNoSuchName"));
    answer("our name missing there", dlsym(libc, "ncclAllReduce"));
    answer("our name missing there, version", dlvsym(libc, "ncclAllReduce", "GLIBC_2.2.5"));
    answer("our name next, from the program", dlsym(RTLD_NEXT, "cudaMalloc"));
    answer("version old", dlvsym(libc, "dlsym", "GLIBC_2.2.5"));
    answer("version missing", dlvsym(libc, "getpid", "GLIBC_9.9"));
    answer("version next", dlvsym(RTLD_NEXT, "getpid", "GLIBC_2.2.5"));
    answer("profiling name", dlsym(nccl, "pncclAllReduce"));
    if (tool_next != NULL) {
        answer("tool next, foreign name", tool_next("getpid"));
        answer("tool next, its own name", tool_next("tool_next"));
        answer("tool next, dlsym", tool_next("dlsym"));
        answer("tool next, our name", tool_next("ncclAllReduce"));
        answer("tool next, version", tool_next_version("getpid", "GLIBC_2.2.5"));
    }
    /* Here the answers differ: the preload hands out wrappers. */
    answer("our name by handle", dlsym(nccl, "ncclAllReduce"));
    answer("our name of the whole program", dlsym(dlopen(NULL, RTLD_LAZY), "ncclAllReduce"));
    printf("same again: %s\n", dlsym(nccl, "ncclAllReduce") == dlsym(nccl, "ncclAllReduce") ? "yes" : "no");
    for (int i = 2; i < argc; ++i) {
        int version = 0;
        void* const copy = open_library(argv[i]);
        int (*ask)(int*) = NULL;
        *(void**)&ask = copy != NULL ? dlsym(copy, "ncclGetVersion") : NULL;
        int (*reduce)(const void*, void*, size_t, int, int, void*, void*) = NULL;
        *(void**)&reduce = copy != NULL ? dlsym(copy, "ncclAllReduce") : NULL;
        int got = -1;
        if (ask != NULL && ask(&version) == 0 && reduce != NULL && reduce(NULL, &got, 1, 2, 0, NULL, NULL) == 0) {
            printf("copy %d: version %d, reduces to %d\n", i - 1, version, got);
        }
        char question[32];
        snprintf(question, sizeof question, "wrapper of copy %d", i - 1);
        Dl_info object;
        printf(
            "%s: %s\n", question,
            dladdr(*(void**)&reduce, &object) != 0 && strstr(object.dli_fname, "titantrace") != NULL ? "ours" : "none");
    }
    return 0;
}
