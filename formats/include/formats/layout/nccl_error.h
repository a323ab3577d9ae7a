// The label under which a process keeps what ncclGetLastError told its program.
#pragma once

namespace titan::format {

inline constexpr char kNcclErrorLabel[] = "nccl_last_error";

}  // namespace titan::format
