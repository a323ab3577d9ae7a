// The driver's functions under their own names, in a namespace: what the entry points call, and what they call each
// other, so that nobody hears of the driver's inner calls.
#pragma once

#include "objects.h"

namespace simgpu::impl {

#define API(name, parameters, arguments) decltype(::name) name;
#include "api.def"
#undef API

}  // namespace simgpu::impl
