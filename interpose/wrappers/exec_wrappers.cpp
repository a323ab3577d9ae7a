// exec: the program becomes another one. Its record ends in order, so that nobody takes it for dead; if the exec fails
// it goes on.
//
// signal-safe, before our constructor, too, and in children of vfork: looking the real functions up takes no lock.
#include "libc_wrappers.h"

#include <alloca.h>
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include <atomic>

#include "libc_function.h"
#include "tracer/record.h"

namespace titan::interpose {
namespace {

enum class ExecApi {
#define EXEC(name, ...) k_##name,
#define EXEC_LIST(name, ...)
#include "exec.def"
#undef EXEC
#undef EXEC_LIST
    kCount
};

constinit std::atomic<void*> real_functions[static_cast<size_t>(ExecApi::kCount)]{};

void* real_function(ExecApi api, const char* name) {
    return libc_function(real_functions[static_cast<size_t>(api)], name);
}

template <typename... Parameters>
int wrap_exec(ExecApi api, const char* name, Parameters... arguments) {
    auto* const real = reinterpret_cast<int (*)(Parameters...)>(real_function(api, name));
    if (real == nullptr) {
        errno = ENOSYS;  // a libc that lacks it
        return -1;
    }
    const tracer::BeforeExec before = tracer::note_exec();
    const int result = real(arguments...);
    const int error = errno;
    tracer::note_exec_failed(before);
    errno = error;
    return result;
}

size_t count_arguments(va_list list, const char* first) {
    size_t count = 0;
    for (const char* argument = first; argument != nullptr; argument = va_arg(list, const char*)) {
        ++count;
    }
    return count;
}

}  // namespace

void find_exec_functions() {
#define EXEC(name, ...) real_function(ExecApi::k_##name, #name);
#define EXEC_LIST(name, ...)
#include "exec.def"
#undef EXEC
#undef EXEC_LIST
}

}  // namespace titan::interpose

#define TITAN_EXPORTED extern "C" __attribute__((visibility("default")))
#define TITAN_EXEC_ARGUMENTS(...) __VA_ARGS__

#define EXEC(name, parameters, arguments)                                              \
    TITAN_EXPORTED int name parameters noexcept {                                      \
        return titan::interpose::wrap_exec(titan::interpose::ExecApi::k_##name, #name, \
                                           TITAN_EXEC_ARGUMENTS arguments);            \
    }
#define EXEC_LIST(name, real, arguments)                                                        \
    TITAN_EXPORTED int name(const char* program, const char* first, ...) noexcept {             \
        using namespace titan::interpose;                                                       \
        va_list list;                                                                           \
        va_start(list, first);                                                                  \
        const size_t count = count_arguments(list, first);                                      \
        va_end(list);                                                                           \
        auto** const argv = static_cast<const char**>(alloca((count + 1) * sizeof(char*)));     \
        va_start(list, first);                                                                  \
        argv[0] = first;                                                                        \
        for (size_t i = 1; i <= count; ++i) {                                                   \
            argv[i] = va_arg(list, const char*);                                                \
        }                                                                                       \
        const int result = wrap_exec(ExecApi::k_##real, #real, TITAN_EXEC_ARGUMENTS arguments); \
        va_end(list);                                                                           \
        return result;                                                                          \
    }
#include "exec.def"
#undef EXEC
#undef EXEC_LIST
