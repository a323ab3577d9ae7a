// What a span asks of modules that the program may have imported: torch, asyncio.
#pragma once

#include "python_api.h"

namespace titan::tracer {

bool start_python_modules();

// Whether torch.compile traces: what is called then is not called when the compiled function runs. False: an error is
// set.
bool is_torch_compiling(bool& compiling);

// The number of the running task of asyncio; 0 outside of tasks. False: an error is set.
bool running_task(uint64_t& task);

}  // namespace titan::tracer
