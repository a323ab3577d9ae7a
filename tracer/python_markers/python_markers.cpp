// What the Python package asks for: its markers in C. Private to it. The library and the package may be of different
// versions: whoever changes PackageFunctions or the result changes the v2 in the name, and the package then does with
// what it has in Python, as where it is refused.
#include "python_api.h"
#include "python_modules.h"
#include "python_places.h"
#include "python_span.h"

namespace titan::tracer {
namespace {

constinit bool python_markers_given = false;

PyObject* forget_places(PyObject*, PyObject*) {
    forget_python_places();
    return none();
}

PyMethodDef forget_method = {"forget_places", reinterpret_cast<void*>(forget_places), kMethodNoArguments, nullptr};

// Our references: they live as long as the process.
bool take(PyObject* given, PackageFunctions& package) {
    PyObject** const into[] = {&package.span,           &package.number_of,  &package.mark_failure,
                               &package.add_attributes, &package.make_again, &package.innermost};
    Py_ssize_t i = 0;
    for (PyObject** const one : into) {
        *one = python_api.PyTuple_GetItem(given, i++);
        if (*one == nullptr) {
            return false;
        }
        python_api.Py_IncRef(*one);
    }
    return true;
}

}  // namespace
}  // namespace titan::tracer

using namespace titan::tracer;

// Adds to the list `made`: titantrace.span, and what a forked child calls; of what PackageFunctions lists. -1, perhaps
// with an error: this Python is not known, or has them already. Another interpreter in the process has objects of its
// own, which may not meet those of the first. (No object is returned: ctypes takes a null for one, and crashes.)
extern "C" __attribute__((visibility("default"))) int titan_python_markers_v2(PyObject* given, PyObject* made);

int titan_python_markers_v2(PyObject* given, PyObject* made) {
    const PythonApi& api = python_api;
    PackageFunctions package{};
    if (python_markers_given || !find_python_api() || api.PyInterpreterState_GetID(api.PyInterpreterState_Get()) != 0) {
        return -1;
    }
    python_markers_given = true;
    PyObject* span = nullptr;
    if (!take(given, package) || !start_python_modules() || !start_python_places(package.number_of) ||
        !start_python_span(package, span)) {
        return -1;
    }
    PyObject* const forget = api.PyCFunction_NewEx(&forget_method, nullptr, nullptr);
    return forget != nullptr && api.PyList_Append(made, span) == 0 ? api.PyList_Append(made, forget) : -1;
}
