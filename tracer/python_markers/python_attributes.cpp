#include "python_attributes.h"

#define TITAN_IN_TRACER
#include "titantrace.h"

namespace titan::tracer {
namespace {

bool is_plain_value(PyObject* value) {
    const PythonApi& api = python_api;
    int overflow = 0;
    if (value->type == api.integer_type) {
        api.PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow == 0;
    }
    return value->type == api.float_type || is_text(value);
}

}  // namespace

bool is_text(PyObject* value) {
    const PythonApi& api = python_api;
    if (value->type != api.text_type) {
        return false;
    }
    if (api.PyUnicode_AsUTF8AndSize(value, nullptr) == nullptr) {  // surrogates
        api.PyErr_Clear();
        return false;
    }
    return true;
}

bool are_plain(PyObject* names, PyObject* const* values) {
    const Py_ssize_t count = names != nullptr ? python_api.PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (!is_text(python_api.PyTuple_GetItem(names, i)) || !is_plain_value(values[i])) {
            return false;
        }
    }
    return true;
}

PyObject* tuple_of(PyObject* const* values, Py_ssize_t count) {
    const PythonApi& api = python_api;
    PyObject* const made = api.PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count && made != nullptr; ++i) {
        api.Py_IncRef(values[i]);
        api.PyTuple_SetItem(made, i, values[i]);
    }
    return made;
}

PyObject* dictionary_of(PyObject* names, PyObject* values) {
    const PythonApi& api = python_api;
    const Py_ssize_t count = names != nullptr ? api.PyTuple_Size(names) : 0;
    PyObject* const made = api.PyDict_New();
    for (Py_ssize_t i = 0; i < count && made != nullptr; ++i) {
        if (api.PyDict_SetItem(made, api.PyTuple_GetItem(names, i), api.PyTuple_GetItem(values, i)) != 0) {
            api.Py_DecRef(made);
            return nullptr;
        }
    }
    return made;
}

void tell_plain(uint64_t id, PyObject* names, PyObject* values) {
    const PythonApi& api = python_api;
    const Py_ssize_t count = api.PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < count; ++i) {
        const char* const name = api.PyUnicode_AsUTF8AndSize(api.PyTuple_GetItem(names, i), nullptr);
        PyObject* const value = api.PyTuple_GetItem(values, i);
        int overflow = 0;
        if (value->type == api.integer_type) {
            titan_attribute_integer(id, name, api.PyLong_AsLongLongAndOverflow(value, &overflow));
        } else if (value->type == api.float_type) {
            titan_attribute_double(id, name, api.PyFloat_AsDouble(value));
        } else {
            titan_attribute_text(id, name, api.PyUnicode_AsUTF8AndSize(value, nullptr));
        }
    }
}

}  // namespace titan::tracer
