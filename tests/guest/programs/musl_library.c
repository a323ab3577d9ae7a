/* A library of a libc other than glibc, with functions that the preload has, too. */
int ncclCommInitAll(void** communicators, int devices, const int* list) {
    for (int i = 0; i < devices; ++i) {
        communicators[i] = &communicators[i];
    }
    return list != 0 ? 4 : 0;
}
int ncclGetVersion(int* version) {
    *version = 22803;
    return 0;
}
int musl_answer(void) { return 42; }
