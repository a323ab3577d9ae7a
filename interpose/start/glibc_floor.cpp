// One build runs in the containers that people have: a preload that needs a newer libc than there is ends every
// program. So it may need nothing newer than glibc 2.17, wherever it is built (tests/meta/check_glibc.py). Functions
// that newer libcs added are system calls here. Functions that moved into libc from libdl and libpthread are linked by
// the version that all libcs have, and weakly: a program without threads may come without those libraries, and ours is
// in many such programs and does nothing. So are functions that only glibc has: programs of other libcs inherit the
// preload, too (tests/meta/check_other_libcs.py).
//
// The names are hidden: all of this library, with what it holds of libstdc++, and nobody else calls these.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/loaded_objects.h"

#if defined(__aarch64__)
#define TITAN_OLDEST "GLIBC_2.17"
#define TITAN_OLDEST_AFFINITY TITAN_OLDEST
#define TITAN_OLDEST_ATFORK TITAN_OLDEST
#define TITAN_OLDEST_QUICK_EXIT TITAN_OLDEST
#else
#define TITAN_OLDEST "GLIBC_2.2.5"
#define TITAN_OLDEST_AFFINITY "GLIBC_2.3.4"  // the version before that takes no size
#define TITAN_OLDEST_ATFORK "GLIBC_2.3.2"
#define TITAN_OLDEST_QUICK_EXIT "GLIBC_2.10"
#endif

namespace {

using titan::LoadedObject;

// Finds a function in a library that the program opened after its start.
void* opened_later(const char* name) {
    void* found = nullptr;
    titan::each_object(nullptr, [&](const LoadedObject& object, size_t) {
        found = object.dynamic != _DYNAMIC ? titan::function_in(object, name) : nullptr;
        return found != nullptr;
    });
    return found;
}

}  // namespace

// A function that calls the one of that name in whichever library has it, `missing` where none has.
#define MOVED(result, name, params, args, missing) MOVED_AT(TITAN_OLDEST, result, name, params, args, missing)
#define MOVED_AT(version, result, name, params, args, missing)                                                 \
    __asm__(".symver old_" #name "," #name "@" version);                                                       \
    extern "C" __attribute__((weak)) result old_##name params;                                                 \
    extern "C" __attribute__((visibility("hidden"))) result name params {                                      \
        auto* const real =                                                                                     \
            old_##name != nullptr ? old_##name : reinterpret_cast<decltype(&old_##name)>(opened_later(#name)); \
        return real != nullptr ? real args : missing;                                                          \
    }

#pragma GCC diagnostic ignored "-Wmissing-attributes"
#pragma GCC visibility push(default)
MOVED(void*, dlopen, (const char* path, int flags), (path, flags), nullptr)
MOVED(int, dladdr, (const void* address, Dl_info* info), (address, info), 0)
MOVED(int, pthread_create, (pthread_t * thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument),
      (thread, attributes, body, argument), ENOSYS)
MOVED(int, pthread_detach, (pthread_t thread), (thread), ENOSYS)
MOVED_AT(TITAN_OLDEST_AFFINITY, int, pthread_setaffinity_np, (pthread_t thread, size_t bytes, const cpu_set_t* mask),
         (thread, bytes, mask), ENOSYS)
MOVED(int, pthread_getattr_np, (pthread_t thread, pthread_attr_t* attributes), (thread, attributes), ENOSYS)
MOVED(int, pthread_attr_getstack, (const pthread_attr_t* attributes, void** stack, size_t* size),
      (attributes, stack, size), ENOSYS)
MOVED(int, pthread_attr_setstacksize, (pthread_attr_t * attributes, size_t size), (attributes, size), ENOSYS)
MOVED(int, pthread_key_create, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy), ENOSYS)
MOVED(int, pthread_setspecific, (pthread_key_t key, const void* value), (key, value), ENOSYS)

// Only in glibc. pthread_atfork and at_quick_exit are functions in it that call the second and the third.
MOVED(int, on_exit, (void (*call)(int, void*), void* argument), (call, argument), -1)
MOVED_AT(TITAN_OLDEST_ATFORK, int, __register_atfork,
         (void (*prepare)(), void (*parent)(), void (*child)(), void* library), (prepare, parent, child, library),
         ENOSYS)
MOVED_AT(TITAN_OLDEST_QUICK_EXIT, int, __cxa_at_quick_exit, (void (*call)(void*), void* library), (call, library), -1)
MOVED(int, fgetgrent_r, (FILE * file, group* into, char* buffer, size_t bytes, group** found),
      (file, into, buffer, bytes, found), ENOSYS)
MOVED(int, __sigaction, (int number, const struct sigaction* action, struct sigaction* old), (number, action, old),
      (errno = ENOSYS, -1))
#pragma GCC visibility pop

#define NEWER extern "C" __attribute__((visibility("hidden")))

NEWER pid_t gettid() { return static_cast<pid_t>(syscall(SYS_gettid)); }
NEWER ssize_t getrandom(void* bytes, size_t count, unsigned flags) {
    return syscall(SYS_getrandom, bytes, count, flags);
}
NEWER int pthread_sigmask(int how, const sigset_t* mask, sigset_t* before) {
    return sigprocmask(how, mask, before) == 0 ? 0 : errno;  // sets the calling thread's mask; in libc from the
                                                             // beginning
}
// Only for commands without an argument.
NEWER int fcntl64(int file, int command, ...) { return static_cast<int>(syscall(SYS_fcntl, file, command, 0)); }
// struct stat64 is the kernel's on both architectures.
NEWER int fstatat64(int directory, const char* path, struct stat64* status, int flags) {
    return static_cast<int>(syscall(SYS_newfstatat, directory, path, status, flags));
}
NEWER int stat64(const char* path, struct stat64* status) { return fstatat64(AT_FDCWD, path, status, 0); }
NEWER int fstat64(int file, struct stat64* status) { return fstatat64(file, "", status, AT_EMPTY_PATH); }
