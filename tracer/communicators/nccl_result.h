// The three kinds of answer that NCCL gives, by the numbers of ncclResult_t: this layer includes no vendor header.
#pragma once

namespace titan::tracer {

inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;  // returned for a non-blocking communicator: not finished yet

constexpr bool is_error(int result) { return result != kSuccess && result != kInProgress; }

}  // namespace titan::tracer
