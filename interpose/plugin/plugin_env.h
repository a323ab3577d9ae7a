// Makes NCCL and NVTX load this library: both look for a library's name in the environment of the process.
#pragma once

namespace titan::interpose {

// Called in the constructor. Only reads and sets environment variables, and only if we were preloaded. The user's own
// settings stay.
void offer_plugins();

// NVTX opened us by a variable of its environment. A program that is not preloaded has only inherited that, unless it
// was given us as NCCL's plugin by path, too.
bool is_nvtx_meant();

// When a session starts: says once what was left to another tool.
void report_plugins_of_others();

}  // namespace titan::interpose
