// What the host of a process is made of: facts that a job expects to be the same everywhere, and that hang it in
// silence where they are not. Read from the system, only when a process dumps: nothing here asks a device, which may be
// the one that is stuck (a port's state, for one, does). signal-safe.
#pragma once

namespace titan::tracer {

// Texts, "" what is not known.
struct Machine {
    char processor[96];    // "AMD EPYC 9654 96-Core Processor" (/proc/cpuinfo)
    char kernel[72];       // release of Linux (uname)
    char gpu_driver[40];   // version of NVIDIA's kernel module (/sys/module/nvidia/version)
    char gpus[200];        // "8 x NVIDIA H100 80GB HBM3" (/proc/driver/nvidia/gpus/*/information)
    char torch[80];        // PyTorch that this process has loaded: "2.13.0+cu130, CUDA 13.0"
    char infiniband[400];  // RDMA devices and their kinds (/sys/class/infiniband): "mlx5_0 MT4129, mlx5_1 MT4129"
};

// `root` is put before every path: tests invent machines.
Machine read_machine(const char* root = "");

}  // namespace titan::tracer
