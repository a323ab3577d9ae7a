// What Python programs of the tests call by ctypes: C++ that waits, and C++ that crashes.
#include <fcntl.h>
#include <unistd.h>

namespace places {

// Not inlined, and not left by a jump: each is a frame.
__attribute__((noinline, noclone)) int wait_for_file(const char* path, const char* is_here) {
    if (is_here != nullptr) {
        close(open(is_here, O_CREAT | O_WRONLY, 0600));
    }
    int turns = 0;
    while (access(path, F_OK) != 0) {
        usleep(5'000);
        ++turns;
    }
    return turns + 1;
}

__attribute__((noinline, noclone)) int read_through(const int* pointer) {
    const volatile int value = *pointer;
    return value + 1;
}

__attribute__((noinline, noclone)) int recurse_without_end(volatile const int* before) {
    volatile int room[64] = {*before};
    return *before == 1 ? 1 : recurse_without_end(room) + room[0];
}

}  // namespace places

extern "C" {
__attribute__((visibility("default"))) int wait_in_cpp(const char* path, const char* is_here) {
    return places::wait_for_file(path, is_here) + 1;
}
__attribute__((visibility("default"))) int crash_in_cpp() { return places::read_through(nullptr) + 1; }
__attribute__((visibility("default"))) int overflow_in_cpp() {
    volatile int zero = 0;
    return places::recurse_without_end(&zero) + 1;
}
}
