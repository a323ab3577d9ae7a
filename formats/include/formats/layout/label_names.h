// Names that the tracer, the tools and the analyzer share.
#pragma once

namespace titan::format {

// Labels that the tracer itself gives a process.
inline constexpr char kNcclErrorLabel[] = "nccl_last_error";  // what ncclGetLastError told its program
inline constexpr char kCommitLabel[] = "git_sha";             // of the directory that the program starts in

// Labels that its Python package gives a process of PyTorch.
inline constexpr char kTorchLabel[] = "pytorch";  // "2.13.0+cu130, CUDA 13.0"
inline constexpr char kGpuDriverLabel[] = "gpu_driver";

// The variable by which titan-run marks what it starts. No setting, but dumps record it as one: its name begins so.
inline constexpr const char* kStartedByVariable = "TITANTRACED_BY";

}  // namespace titan::format
