// What stands behind the driver's opaque handles, and the one lock that guards them.
//
// The lock covers state only. Nothing waits for a stream while holding it, so a hung kernel never blocks an API call
// that does not itself wait for the device.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "simgpu.h"
#include "simgpu_try.h"
#include "stream_queue.h"
#include "vendor.h"

namespace simgpu {
struct Capture;

// One recording of an event; a later recording makes a new one, and waits keep the one they saw.
struct Moment {
    std::mutex mutex;
    std::condition_variable reached;
    bool done = false;
    std::chrono::steady_clock::time_point time;

    void finish();
    bool is_done();
    void wait();
};
}  // namespace simgpu

struct CUctx_st {
    int device = 0;
    unsigned flags = 0;
    uint64_t id = 0;
    // Shared with running kernels, which outlive the context when they hang.
    std::shared_ptr<int32_t> cancelled = std::make_shared<int32_t>(0);
    std::shared_ptr<CUstream_st> legacy;
};

struct CUgraphNode_st {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    simgpu::Work run;
    std::string name;
    std::vector<CUgraphNode> dependencies = {};
    std::shared_ptr<CUgraph_st> child = {};  // of a child graph node: its own copy of the graph
    std::shared_ptr<CUevent_st> records =
        {};                                   // of an external event record: the event gets a new moment at each launch
    std::shared_ptr<CUevent_st> awaits = {};  // of an external event wait
    CUgraphNode original = nullptr;           // of a copy: the node that it was made from
};

struct CUgraph_st {
    // In the order of creation, which is a topological one: a node can only depend on older ones.
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
    bool embedded = false;  // in a child graph node, which owns it
};

struct CUgraphExec_st {
    // Never changed: an update puts another body in its place, and launches in flight keep theirs.
    std::shared_ptr<const CUgraph_st> body;
    CUcontext context = nullptr;
};

struct CUstream_st {
    CUcontext context = nullptr;
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
    std::shared_ptr<simgpu::StreamQueue> queue;
    std::shared_ptr<simgpu::Capture> capture;
    std::vector<CUgraphNode> capture_tail;  // the nodes that the next captured node depends on
};

struct CUevent_st {
    unsigned flags = 0;
    CUcontext context = nullptr;
    std::shared_ptr<simgpu::Moment> moment;  // none: never recorded, which counts as complete
    std::shared_ptr<simgpu::Capture> capture;
    std::vector<CUgraphNode> capture_tail;
};

struct CUfunc_st {
    SimgpuKernel kernel;
    std::string name;
    CUmodule module = nullptr;
};

struct CUmod_st {
    bool foreign = false;  // a real GPU's code: every function is there; see foreign.h for those that compute
    std::vector<std::unique_ptr<CUfunc_st>> functions;
};

namespace simgpu {

using StreamRef = std::shared_ptr<CUstream_st>;
using EventRef = std::shared_ptr<CUevent_st>;

struct Capture {
    uint64_t id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id owner;
    CUgraph graph = nullptr;
    CUstream origin = nullptr;
    std::vector<CUstream> joined;
    bool own_graph = true;  // false: the program's, which outlives a capture that failed
    bool invalidated = false;
    bool ended = false;
};

struct MemoryPlace {
    CUmemorytype type;
    int device;
    bool mapped = false;  // by cuMemMap
};

struct PhysicalMemory {
    int file;
    size_t bytes;
    CUmemAllocationProp wanted;
};

constexpr size_t kDeviceBytes = size_t{80} << 30;  // of each device

struct Driver {
    std::mutex lock;
    bool initialized = false;
    int device_count = 0;
    uint64_t next_id = 1;
    std::map<int, std::pair<CUcontext, int>> primary;  // device -> context, retain count
    std::set<CUcontext> contexts;
    std::map<CUstream, StreamRef> streams;
    std::map<CUevent, EventRef> events;
    std::set<CUmodule> modules;
    std::set<CUfunction> functions;
    std::set<CUgraph> graphs;
    std::set<CUgraphExec> graph_execs;
    std::vector<std::shared_ptr<Capture>> captures;
    std::map<CUdeviceptr, size_t> allocations;
    std::map<CUdeviceptr, MemoryPlace> places;  // of the allocations
    std::map<CUdeviceptr, size_t> registered;   // host memory made known with cuMemHostRegister
    std::map<CUdeviceptr, size_t> reserved;     // addresses
    std::map<CUmemGenericAllocationHandle, PhysicalMemory> physical;
    size_t allocated_bytes = 0;
};

// Never destroyed: workers may still run while the process exits.
Driver& driver();

// CUDA_SUCCESS when the driver may be used by this process: initialized, and not in a forked child.
CUresult ready();
bool forked();

CUcontext& current_context();              // top of this thread's stack, or null
std::vector<CUcontext>& context_stack();   // of this thread
CUresult require_context(CUcontext* out);  // ready() and a live current context

inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// Memory of the driver's or registered with it. The lock is taken inside.
bool device_can_reach(CUdeviceptr pointer, size_t bytes);

// While it lives, this thread's null stream is the per-thread default stream: what an entry point ending in _ptsz or
// _ptds means.
class PerThreadStreams {
  public:
    PerThreadStreams();
    ~PerThreadStreams();
    PerThreadStreams(const PerThreadStreams&) = delete;
    PerThreadStreams& operator=(const PerThreadStreams&) = delete;
};

// `handle` may be the legacy or the per-thread default stream. The lock is taken inside.
CUresult find_stream(CUstream handle, StreamRef* out);
CUresult find_event(CUevent handle, EventRef* out);
StreamRef make_stream(CUcontext context, unsigned flags, int priority);  // lock held by the caller

// Enqueues on the stream with the legacy stream's ordering, or adds a node when the stream is being captured.
CUresult submit(const StreamRef& stream, CUgraphNodeType type, Work work, std::string name = {});
// Waits for everything enqueued so far.
CUresult drain(const StreamRef& stream);
CUresult drain_context(CUcontext context);

}  // namespace simgpu
