/* Loads two libraries with an NCCL of their own each, privately, and asks both in turn. */
#include <dlfcn.h>
#include <stdio.h>

typedef int (*Ask)(void);

static Ask ask(void* library, const char* name) {
    Ask found = NULL;
    *(void**)&found = dlsym(library, name); /* as POSIX has it: ISO C knows no such cast */
    return found;
}

int main(int argc, char** argv) {
    void* libraries[2];
    if (argc < 3) {
        return 2;
    }
    for (int i = 0; i < 2; ++i) {
        libraries[i] = dlopen(argv[1 + i], RTLD_LAZY | RTLD_LOCAL);
        if (!libraries[i]) {
            printf("%s\n", dlerror());
            return 1;
        }
    }
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 2; ++i) {
            printf("version %d reduce %d\n", ask(libraries[i], "user_version")(), ask(libraries[i], "user_reduce")());
        }
    }
    if (argc > 3) {
        printf("newer %s\n", ask(libraries[0], "user_newer")() == 0 ? "succeeds" : "fails");
    }
    return 0;
}
