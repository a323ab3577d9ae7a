#include "python_api.h"

#include <dlfcn.h>

namespace titan::tracer {
namespace {

template <typename Pointer>
bool find_python_name(Pointer& into, const char* name) {
    into = reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, name));
    return into != nullptr;
}

}  // namespace

bool find_python_api() {
    PythonApi& api = python_api;
    find_python_name(api.PyFrame_GetLasti, "PyFrame_GetLasti");
    return true
#define TITAN_PYTHON_FUNCTION(result, name, parameters) &&find_python_name(api.name, #name)
#define TITAN_PYTHON_OBJECT(type, name, symbol) &&find_python_name(api.name, #symbol)
#include "python_api.def"
        ;
}

bool forget_own_error() {
    const PythonApi& api = python_api;
    PyObject* const own[] = {*api.recursion_error, *api.memory_error, *api.attribute_error, *api.name_error,
                             *api.type_error};
    for (PyObject* const kind : own) {
        if (api.PyErr_ExceptionMatches(kind) != 0) {
            api.PyErr_Clear();
            return true;
        }
    }
    return false;
}

}  // namespace titan::tracer
