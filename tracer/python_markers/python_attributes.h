// Attributes of spans that need no Python: each value is a str, an int of 64 bits or a float, and of no subclass. They
// refer to nothing, so that a span which holds them is in no cycle of references.
#pragma once

#include "python_api.h"

namespace titan::tracer {

// A str and no subclass, whose UTF-8 C can read: without surrogates.
bool is_text(PyObject* value);

// `names`: a tuple of str, or null for none.
bool are_plain(PyObject* names, PyObject* const* values);

// Null: an error is set. `values` is a tuple.
PyObject* tuple_of(PyObject* const* values, Py_ssize_t count);
PyObject* dictionary_of(PyObject* names, PyObject* values);

// To the span of that id. `values`: the tuple of plain ones.
void tell_plain(uint64_t id, PyObject* names, PyObject* values);

}  // namespace titan::tracer
