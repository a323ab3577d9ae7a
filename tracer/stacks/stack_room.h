// Whether a handler's frame finds room on the main thread's stack. cold.
#pragma once

namespace titan::tracer {

// That stack alone grows as it is used; those of other threads are as long from the start as they may become. Where the
// program may have no more addresses (RLIMIT_AS), the kernel answers a stack that is to grow with SIGSEGV.
bool main_stack_may_grow();

}  // namespace titan::tracer
