// Whether NCCL and NVTX come to us: both look for a library's name in the environment of the process.
#pragma once

namespace titan::interpose {

// In the constructor: only reads and sets environment variables, and only when the preload brought us here. What the
// user has set stays.
void offer_plugins();

// NVTX opened us by a variable of its environment. A program that is not preloaded has only inherited that, unless it
// was given us as NCCL's plugin by path, too.
bool is_nvtx_meant();

// When a session starts: says once what was left to another tool.
void report_plugins_of_others();

}  // namespace titan::interpose
