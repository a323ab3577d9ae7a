#include "ask_kernel_name.h"

#include <string.h>

#include "base/loaded_objects.h"

namespace titan::interpose {

namespace {

using tracer::FunctionKind;

// CUresult and cudaError_t travel as int; 0 is success in both.
using NameOf = int(const char** name, const void* function);
using FunctionOf = int(void** function, const void* symbol);
using Error = int();

template <typename Function>
Function* find(const LoadedObject& object, const char* name) {
    return reinterpret_cast<Function*>(function_in(object, name));
}

bool copy(const char* found, char* name, size_t bytes) {
    if (found == nullptr || *found == '\0') {
        return false;
    }
    const size_t length = strnlen(found, bytes - 1);
    memcpy(name, found, length);
    name[length] = '\0';
    return true;
}

// A handle of the driver: a function, or a kernel of a library, which launches take in its place (CUDA 12).
bool ask_driver(const LoadedObject& driver, const void* function, char* name, size_t bytes) {
    for (const char* const question : {"cuFuncGetName", "cuKernelGetName"}) {  // CUDA 12.3
        const char* found = nullptr;
        NameOf* const ask = find<NameOf>(driver, question);
        if (ask != nullptr && ask(&found, function) == 0 && copy(found, name, bytes)) {
            return true;
        }
    }
    return false;
}

// Runtimes before 12.3: through the driver's handle.
bool ask_through_driver(const LoadedObject& runtime, const void* symbol, char* name, size_t bytes) {
    void* function = nullptr;
    FunctionOf* const ask = find<FunctionOf>(runtime, "cudaGetFuncBySymbol");
    return ask != nullptr && ask(&function, symbol) == 0 &&
           ask_driver(object_called("libcuda.so.1"), function, name, bytes);
}

// The host's stub of a kernel carries the kernel's own mangled name, where the linker kept it.
bool ask_symbols(const void* symbol, char* name, size_t bytes) {
    return copy(ObjectSymbols(object_of(symbol)).name_of(symbol), name, bytes);
}

bool ask_runtime(const LoadedObject& runtime, const void* symbol, char* name, size_t bytes) {
    const char* found = nullptr;
    NameOf* const ask = find<NameOf>(runtime, "cudaFuncGetName");  // CUDA 12.3
    if (ask != nullptr && ask(&found, symbol) == 0 && copy(found, name, bytes)) {
        return true;
    }
    return ask_through_driver(runtime, symbol, name, bytes);
}

}  // namespace

bool kernel_name(FunctionKind kind, const void* function, const void* real, char* name, size_t bytes) {
    const LoadedObject library = object_of(real);
    if (kind == FunctionKind::kDriverHandle) {
        return ask_driver(library, function, name, bytes);
    }
    // A question that fails would set the thread's last error; one that is set already could be overwritten.
    Error* const peek = find<Error>(library, "cudaPeekAtLastError");
    Error* const take = find<Error>(library, "cudaGetLastError");
    const bool may_ask = peek != nullptr && take != nullptr && peek() == 0;
    if (may_ask && ask_runtime(library, function, name, bytes)) {
        return true;
    }
    if (may_ask && peek() != 0) {
        take();
    }
    return ask_symbols(function, name, bytes);
}

}  // namespace titan::interpose
