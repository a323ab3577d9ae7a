// The places in Python code that open spans, each told to the tracer once.
#pragma once

#include "python_api.h"

namespace titan::tracer {

// `number_of`: the package's function that tells a frame's place to the tracer, and returns its number.
bool start_python_places(PyObject* number_of);

// The number of the place that the calling frame is at, for MarkerEntry::site; 0: nowhere. False: an error is set.
bool python_place(uint32_t& number);

// In a forked child: it has another record.
void forget_python_places();

}  // namespace titan::tracer
