// The host side of a launch: the kernel goes to the user's stream through the driver, as NCCL's does.
#include <array>

#include "plan.h"
#include "simgpu.h"

namespace simgpu {

namespace {

void plan_body(void** args) {
    Plan* plan = *static_cast<Plan**>(args[0]);
    plan->run(static_cast<const int32_t*>(args[1]));
    if (!plan->captured) {
        delete plan;
    }
}

constexpr size_t kKinds = static_cast<size_t>(OpKind::kCount);

#define ROW(name) {"ncclDevKernel_" #name "_simgpu", plan_body, 1, {sizeof(Plan*)}},
const SimgpuKernel kKernels[] = {SIMGPU_OP_KINDS(ROW)};
#undef ROW
const SimgpuFatBinary kBinary = {SIMGPU_FATBIN_MAGIC, kKinds, kKernels};

constexpr const char* kWords[] = {
#define ROW(name) #name,
    SIMGPU_OP_KINDS(ROW)
#undef ROW
};

CUfunction kernel_of(OpKind kind) {
    static const std::array<CUfunction, kKinds> functions = [] {
        std::array<CUfunction, kKinds> found{};
        CUmodule module = nullptr;
        if (driver_table()->cuModuleLoadData(&module, &kBinary) == CUDA_SUCCESS) {
            for (size_t i = 0; i < kKinds; ++i) {
                driver_table()->cuModuleGetFunction(&found[i], module, kKernels[i].name);
            }
        }
        return found;
    }();
    return functions[static_cast<size_t>(kind)];
}

// Everything launched on `after` from now on comes behind what `before` holds now.
void order(CUevent event, CUstream before, CUstream after) {
    const DriverTable& cu = *driver_table();
    if (cu.cuEventRecord(event, before) == CUDA_SUCCESS) {
        cu.cuStreamWaitEvent(after, event, 0);
    }
}

}  // namespace

const char* op_word(OpKind kind) { return kWords[static_cast<size_t>(kind)]; }

ncclResult_t launch(std::unique_ptr<Plan> plan, const std::vector<CUstream>& streams) {
    const DriverTable& cu = *driver_table();
    const CoreRef core = plan->core;
    const CUstream stream = streams.front();
    ContextGuard context(core->context);

    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    if (cu.cuStreamIsCapturing(stream, &capturing) != CUDA_SUCCESS) {
        return ncclUnhandledCudaError;
    }
    plan->captured = capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE;

    CUevent joint = nullptr;
    if (streams.size() > 1 && cu.cuEventCreate(&joint, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        return ncclUnhandledCudaError;
    }
    for (size_t i = 1; i < streams.size(); ++i) {
        order(joint, streams[i], stream);
    }
    bool created = false;
    {
        std::lock_guard lock(core->lock);
        if (!plan->captured) {
            ++core->plans_queued;
            if (!core->last_launch) {
                created = cu.cuEventCreate(&core->last_launch, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
            }
            // Operations of one communicator run in the order of their calls, whatever their streams.
            if (!created && core->last_launch && core->last_stream != stream) {
                cu.cuStreamWaitEvent(stream, core->last_launch, 0);
            }
        }
    }
    profile_make_progress(*plan);
    // The kernel owns the plan and may be done with it before the launch is announced.
    std::unique_ptr<Plan> announced = std::make_unique<Plan>(*plan);
    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    Plan* raw = plan.get();
    void* args[] = {&raw};
    const bool captured = plan->captured;
    if (captured) {
        std::lock_guard lock(core->lock);
        core->captured_plans.push_back(std::move(plan));
    } else {
        plan.release();  // the kernel's
    }
    const OpKind kind = raw->kind;
    profile_launch(*announced, stream, true);
    const CUresult launched = cu.cuLaunchKernelEx(&config, kernel_of(kind), args, nullptr);
    profile_launch(*announced, stream, false);
    if (launched != CUDA_SUCCESS) {
        std::lock_guard lock(core->lock);
        if (!captured) {
            --core->plans_queued;
            delete raw;
        }
        return ncclUnhandledCudaError;
    }
    if (!profile_at_replay(*announced)) {
        profile_operations(*announced);
    }
    if (!captured) {
        std::lock_guard lock(core->lock);
        cu.cuEventRecord(core->last_launch, stream);
        core->last_stream = stream;
    }
    for (size_t i = 1; i < streams.size(); ++i) {
        order(joint, stream, streams[i]);
    }
    if (joint) {
        cu.cuEventDestroy(joint);
    }
    return ncclSuccess;
}

}  // namespace simgpu
