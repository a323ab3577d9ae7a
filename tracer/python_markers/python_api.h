// CPython's functions, found by name in the process that we are loaded into: libtitantrace.so is linked with no Python,
// and is one file for all versions. Declared here by hand, since their header need not be there where we are built.
//
// Called with the GIL held, as all of python_markers/. cold, but for what a span needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::tracer {

using Py_ssize_t = ptrdiff_t;

// The head of every object. The package asks for us only where an object is no larger.
struct PyObject {
    Py_ssize_t references;
    PyObject* type;
};

using PyCall = PyObject* (*)(PyObject* self, PyObject* argument);
using PyFastCall = PyObject* (*)(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
using PyKeywordCall = PyObject* (*)(PyObject* self, PyObject* arguments, PyObject* keywords);
using PyVectorCall = PyObject* (*)(PyObject* self, PyObject* const* arguments, size_t count, PyObject* keywords);

struct PyMethodDef {
    const char* name;
    void* function;
    int flags;
    const char* text;
};
struct PyMemberDef {
    const char* name;
    int type;
    Py_ssize_t offset;
    int flags;
    const char* text;
};
struct PyGetSetDef {
    const char* name;
    void* get;
    void* set;
    const char* text;
    void* closure;
};
struct PyTypeSlot {
    int slot;
    void* value;
};
struct PyTypeSpec {
    const char* name;
    int basic_bytes;
    int item_bytes;
    unsigned flags;
    PyTypeSlot* slots;
};

// Their numbers belong to the stable ABI.
inline constexpr int kMethodKeywords = 0x3, kMethodNoArguments = 0x4, kMethodFast = 0x80;
inline constexpr int kSlotCall = 50, kSlotDealloc = 52, kSlotMethods = 64, kSlotNew = 65, kSlotMembers = 72,
                     kSlotGetSet = 73;
inline constexpr int kMemberSize = 19, kMemberReadOnly = 1;
inline constexpr unsigned kTypeDefault = 1U << 18, kTypeHasVectorCall = 1U << 11;
inline constexpr size_t kVectorCallMayWriteBefore = size_t{1} << 63;

struct PythonApi {
#define TITAN_PYTHON_FUNCTION(result, name, parameters) result(*name) parameters;
#define TITAN_PYTHON_OBJECT(type, name, symbol) type* name;
#include "python_api.def"
    int (*PyFrame_GetLasti)(PyObject*);  // from 3.11 on; null before
};

inline constinit PythonApi python_api{};

// False: something is missing here, and nothing may be called.
bool find_python_api();

// A reference of our own to a module's dictionary or the like; null without an error.
inline PyObject* attribute_or_null(PyObject* object, const char* name) {
    PyObject* const found = python_api.PyObject_GetAttrString(object, name);
    if (found == nullptr) {
        python_api.PyErr_Clear();
    }
    return found;
}

// Takes back an error that functions of ours can have raised: memory or recursion run out, modules taken apart at the
// end of the interpreter. Others are the program's, raised by a handler of a signal: false, they must reach it.
bool forget_own_error();

inline PyObject* none() {
    python_api.Py_IncRef(python_api.none_object);
    return python_api.none_object;
}

}  // namespace titan::tracer
