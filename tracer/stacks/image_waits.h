// What threads of a captured image wait in, as far as exported names tell.
#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>

namespace titan::tracer {

// What that thread waits in for other ranks outside NCCL ("Gloo", "the store"); empty where no frame is named so.
std::string_view wait_outside_nccl(std::span<const char> image, pid_t tid);

}  // namespace titan::tracer
