// A communicator. The handle that the program holds is one thing, what it stands for another: operations on streams
// may outlive the handle (an aborted communicator whose kernel is still queued behind a hung one).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver_table.h"
#include "proxy.h"
#include "segment.h"
#include "simgpu_try.h"
#include "vendor.h"

namespace simgpu {

struct Plan;

struct PreMulScalar {
    ncclDataType_t type = ncclFloat32;
    ncclScalarResidence_t residence = ncclScalarHostImmediate;
    unsigned char value[8] = {};
    const void* device_value = nullptr;
};

struct Core {
    std::string key;  // identity that all members agree on; names the shared memory
    int rank = -1;
    int ranks = 0;
    int device = -1;
    bool blocking = true;
    std::string name;
    CUcontext context = nullptr;
    std::shared_ptr<Segment> segment;

    std::atomic<int> async_result{ncclInProgress};
    std::atomic<bool> abort{false};
    bool finalized = false;
    bool revoked = false;
    std::atomic<bool> suspended{false};
    uint32_t children = 0;

    // Device side: one operation of a communicator at a time.
    std::mutex executing;
    uint32_t round = 0;  // parity selects the staging slot
    std::atomic<int> inject_stuck{0};
    std::vector<uint32_t> signals_seen;  // one-sided: per peer, arrived and not yet waited for

    std::mutex lock;  // guards what follows
    std::condition_variable plan_ended;
    int plans_queued = 0;
    int plans_running = 0;
    CUevent last_launch = nullptr;
    CUstream last_stream = nullptr;
    std::list<std::unique_ptr<Plan>> captured_plans;  // graphs may replay them as long as the communicator lives
    std::map<int, PreMulScalar> scalars;
    int next_scalar = ncclNumOps;
    uint64_t next_window = 1;
    std::map<uint64_t, std::pair<unsigned char*, size_t>> windows;

    // For the profiler plugin.
    uint64_t hash = 0;
    int nodes = 1;
    bool profiled = false;
    void* profiler_context = nullptr;
    std::atomic<uint64_t> sequence[16] = {};  // per kind of operation
    std::unique_ptr<Proxy> proxy;             // guarded by `lock`

    ~Core();
    ncclResult_t state() const { return static_cast<ncclResult_t>(async_result.load()); }
};

using CoreRef = std::shared_ptr<Core>;

// Null for a handle that is not a live communicator.
CoreRef find_core(ncclComm_t handle);
ncclComm_t make_handle(const CoreRef& core);
void drop_handle(ncclComm_t handle);

// ncclSuccess when the communicator can be used now. As NCCL does, it asks ncclCommGetAsyncError by its exported name,
// in front of which a preloaded library may stand.
ncclResult_t usable(ncclComm_t comm, const CoreRef& core);

// "Prints" like NCCL: to stderr with NCCL_DEBUG=WARN, and kept for ncclGetLastError.
void warn(const std::string& text);
std::string last_warning();

uint64_t mix(uint64_t seed, const void* data, size_t bytes);
std::string child_key(const Core& parent, const char* kind, uint32_t ordinal, const void* data, size_t bytes);
uint64_t host_id();

// The context of a device, retained by this library; null when CUDA fails.
CUcontext device_context(int device);
int current_device();

class ContextGuard {
  public:
    explicit ContextGuard(CUcontext context) { driver_table()->cuCtxPushCurrent(context); }
    ~ContextGuard() {
        CUcontext popped;
        driver_table()->cuCtxPopCurrent(&popped);
    }
    ContextGuard(const ContextGuard&) = delete;
    ContextGuard& operator=(const ContextGuard&) = delete;
};

}  // namespace simgpu
