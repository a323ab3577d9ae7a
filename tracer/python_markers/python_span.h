// `span("forward")` as an object of a type in C, which costs a tenth of the one in Python.
//
// It is what python/titantrace/spans.py says a Span is: same words, same places, same tasks. Whatever is rare (a name
// that is no str, attributes, decorators, errors) goes to the functions there.
#pragma once

#include "python_api.h"

namespace titan::tracer {

// The package's own, as it hands them to titan_python_markers_v2; in this order.
struct PackageFunctions {
    PyObject* span;            // makes a span in Python of anything
    PyObject* number_of;       // of the place that a frame is at
    PyObject* mark_failure;    // of a span by its id, that an exception leaves
    PyObject* add_attributes;  // to a span by its id
    PyObject* make_again;      // makes a span of its name and a dictionary of its attributes
    PyObject* innermost;       // the context variable: what spans.py says of it
};

// Makes the types. `span` is the one of C then. False: an error may be set.
bool start_python_span(const PackageFunctions& package, PyObject*& span);

}  // namespace titan::tracer
