// Labels that the tracer itself gives a process.
#pragma once

namespace titan::format {

inline constexpr char kNcclErrorLabel[] = "nccl_last_error";  // what ncclGetLastError told its program
inline constexpr char kCommitLabel[] = "git_sha";             // of the directory that the program starts in

}  // namespace titan::format
