/* Two NCCL copies in one process, reached by dlsym alone: each answers with its own number, whoever asked last. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef int (*Version)(int*);
typedef int (*Reduce)(const void*, void*, size_t, int, int, void*, void*);

int main(int argc, char** argv) {
    Version version[2];
    Reduce reduce[2];
    if (argc != 3) {
        return 2;
    }
    for (int i = 0; i < 2; ++i) {
        void* const copy = dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL);
        if (copy == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        *(void**)&version[i] = dlsym(copy, "ncclGetVersion");
        *(void**)&reduce[i] = dlsym(copy, "ncclAllReduce");
    }
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 2; ++i) {
            int number = 0;
            int got = -1;
            version[i](&number);
            reduce[i](NULL, &got, 1, 2, 0, NULL, NULL);
            printf("version %d reduces to %d\n", number, got);
        }
    }
    return 0;
}
