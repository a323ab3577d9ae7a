// The tracer's interface for the wrappers (interpose/): mark a call as begun, mark it as returned. Everything else is
// private to the tracer.
//
// Pattern of every wrapper: `Call call; if (!enter_x(call, ...)) return real(...); result = real(...); leave_x(call,
// ...)`. enter_* returns false when the call must not be recorded: the tracer is off or could not start, or this call
// is nested inside one that is already recorded. Between enter and leave no lock is held. Handles travel as plain
// addresses: this layer includes no vendor header.
//
// Thread words: hot = no lock, allocation, system call or I/O; cold = may do those, still never throws or exits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/layout/enums.h"

namespace titan::format {
struct CollectiveEntry;
}

namespace titan::tracer {

struct Session;
struct Thread;
struct Communicator;
struct ContextRow;

// Functions that the interposed calls are about: at most kMaxApis, by ids below it. Names are interned once per
// session; ids are not on disk.
inline constexpr size_t kMaxApis = 1024;
struct ApiNames {
    const char* const* names;
    size_t count;
};

// Functions of one NCCL copy that describe a communicator. Each returns ncclResult_t.
struct CommQueries {
    int (*size)(const void* comm, int* size);
    int (*rank)(const void* comm, int* rank);
    int (*device)(const void* comm, int* device);
};

// A collective, a point-to-point call, or a call that changes a communicator or belongs to one.
struct CallArgs {
    format::OpKind kind;
    const void* comm = nullptr;
    const void* send = nullptr;
    const void* receive = nullptr;
    size_t count = 0;
    int datatype = 255;   // ncclDataType_t
    int reduction = 255;  // ncclRedOp_t
    int peer = -1;        // root or peer
    const void* stream = nullptr;
    uint16_t flags = 0;   // format::CollectiveFlags that only the way in knows
    bool observe = true;  // false: its stream is not known, so nothing may be put on it
};

// A call that makes a communicator.
struct CreateArgs {
    format::OpKind kind;
    const void* parent = nullptr;     // split, shrink, grow
    const void* unique_id = nullptr;  // 128 bytes, or null
    int size = -1;
    int rank = -1;
    int color = 0;
    int key = 0;
    const int* excluded = nullptr;  // shrink: parent ranks left out
    int excluded_count = 0;
    const void* config = nullptr;  // ncclConfig_t; only fields below its own `size` are read
    bool scalable = false;
    const CommQueries* queries = nullptr;
    uint64_t known_id = 0;   // the identity, if it is known and need not be derived
    uint64_t nccl_hash = 0;  // NCCL's own hash of it
};

// Marks on a stream around one launch, to observe the device's progress. Only the tracer uses the fields.
struct Launch {
    uint64_t number_plus_one;  // 0: not observed
    const void* stream;
    ContextRow* row;    // of the stream's context
    uint32_t tenancy;   // the row's, when the launch began
    bool light;         // its marks are events, whatever the method
    bool foreign;       // its context was not the thread's current one when it began
    void* start_event;  // null: its marks are stream writes
    void* finish_event;
};

// One recorded call in progress; lives on the wrapper's stack.
struct Call {
    Thread* thread;
    uint64_t ticket;
    Communicator* communicator;
    uint8_t traits;                  // CallTraits
    format::CollectiveEntry* entry;  // the slot of `ticket`, where the call has an entry of its own
    Launch launch;
    uint32_t replayed;  // graph launches: entries from `ticket` on
};

// The tables of names and the library's own functions, set once by the constructor, before any call.
struct DriverApi;
struct NvmlApi;
enum class FunctionKind : uint8_t { kNone, kRuntimeSymbol, kDriverHandle };

struct Bindings {
    ApiNames apis;
    // Writes the (mangled) name of a kernel, as the CUDA that `real` belongs to knows it; false when nobody knows.
    // cold.
    bool (*kernel_name)(FunctionKind kind, const void* function, const void* real, char* name, size_t bytes);
    bool (*find_driver)(DriverApi&);  // fills in libcuda's functions; false when no libcuda is loaded
    bool (*find_nvml)(NvmlApi&);      // fills in NVML's functions; false when it is not loaded
    int (*nccl_version)();            // ncclGetVersion, 0 unknown
    void (*session_started)(
        bool cupti);                  // once per session, on the thread that started it; `cupti`: the mode is asked for
    bool other_copy_records = false;  // another libtitantrace.so of this process, in front of this one
};
void set_bindings(const Bindings& bindings);

// Traits of a call that entering and leaving depend on: constants in every wrapper, so that the compiler can use them.
enum CallTraits : uint8_t {
    kCounted = 1 << 0,   // takes the next sequence number of its communicator
    kOnDevice = 1 << 1,  // runs on a stream
    kLifecycle = 1 << 2,
    kObserved = 1 << 3,      // set per call: its launch has a mark before it
    kCapturedCall = 1 << 4,  // set per call: its stream is being captured into a graph
};
constexpr uint8_t traits_of(format::OpKind kind) {
    const format::OpClass op_class = format::class_of(kind);
    const bool counted = op_class == format::OpClass::collective || op_class == format::OpClass::rooted;
    const bool on_device = counted || op_class == format::OpClass::p2p || kind == format::OpKind::kWaitSignal;
    return static_cast<uint8_t>((counted ? kCounted : 0) | (on_device ? kOnDevice : 0) |
                                (op_class == format::OpClass::lifecycle ? kLifecycle : 0));
}

// hot after the first call of a thread, any-thread.
bool enter_call(Call& call, uint16_t api, const CallArgs& args, uint8_t traits);
inline bool enter_call(Call& call, uint16_t api, const CallArgs& args) {
    return enter_call(call, api, args, traits_of(args.kind));
}
void leave_call(Call& call, int result);

// cold, any-thread. `handle` is where NCCL stores the handle, now or (groups, non-blocking) later.
bool enter_create(Call& call, uint16_t api, const CreateArgs& args);
void leave_create(Call& call, void** handle, int result);
// ncclCommInitAll: `count` members, member i on devices[i] (null: device i), its handle in comms[i].
bool enter_create_all(Call& call, uint16_t api, int count, const int* devices, const CommQueries* queries);
void leave_create_all(Call& call, void** comms, int count, int result);

// A call without an entry of its own: only "this thread is inside it". `starts` says whether it may wake the tracer.
// CUDA synchronisations go through enter_cuda, which also records them. hot.
bool enter_mark(Call& call, uint16_t api, const void* object);
void leave_mark(Call& call);
bool enter_cuda(Call& call, uint16_t api, const void* object);
void leave_cuda(Call& call, int result);
// As enter_mark, for CUDA calls, which never start a session.
bool enter_cuda_mark(Call& call, uint16_t api, const void* object);

// Do the interposed CUDA calls record? Not with TITANTRACE_CUDA=off, nor while CUPTI's callbacks do. The marks of
// captures and graphs stay on: a collective's device progress depends on them. Wrappers ask before enter_cuda and
// enter_query; launches look themselves. any-thread.
[[gnu::visibility("hidden")]] extern std::atomic<bool> cuda_interposed;
inline bool cuda_is_interposed() { return cuda_interposed.load(std::memory_order_relaxed); }
void set_cuda_interposed(bool interposed);

// Work handed to a stream: kernels, copies, sets, host functions, event records and waits. Counted per thread, recorded
// as TITANTRACE_LAUNCHES says, before the real call. hot: the cheapest of all, so it takes and returns registers.
struct StreamWork {
    format::WorkKind kind;
    const void* stream = nullptr;
    const void* object = nullptr;  // event or address; kernels: the function's handle
    uint64_t amount = 0;           // bytes, or thread blocks
};

enum class WorkState : uint32_t { kNotRecorded = 0, kEntered, kUnnamed };

// The part of a thread's state that wrappers read themselves: is the thread inside a recorded call? Threads start out
// pointing at a shared empty state, so it is never null. initial-exec: the library is in the process from its start, so
// the access is one instruction and never allocates.
struct Nesting {
    uintptr_t inside;  // stack address in the recorded call's frame, 0 outside
};
extern constinit __attribute__((tls_model("initial-exec"), visibility("hidden"))) thread_local Nesting* this_nesting;
inline bool is_nested() { return this_nesting->inside != 0; }

// Parameters are full 64-bit words: each constant then costs one instruction.
WorkState enter_work(const void* stream, const void* object, uint64_t api, uint64_t amount, uint64_t kind);
WorkState enter_kernel(const void* stream, const void* function, uint64_t api, uint64_t blocks);
int leave_work(int result);  // returns it, so that a wrapper can end with a jump

// leave_work of a kernel whose name is new. CUDA is asked after the launch, because asking before would be one more
// thing that could load a module, and only after success. `real` is the launch function, to ask the same CUDA.
int leave_unnamed(int result, FunctionKind kind, const void* function, const void* real);

// The same as CUPTI's callbacks tell it, while the wrappers do not record: the kernel's name comes along, or is null.
// hot.
bool enter_reported_work(Call& call, uint16_t api, const StreamWork& work, const char* kernel);
void leave_reported_work(Call& call);
// Modules are about to be unloaded: the handles of their kernels may come back for others. cold.
void forget_kernels();

// A query (cudaEventQuery) never blocks: a host that waits makes it again and again, and that is what is recorded. hot.
bool enter_query(Call& call, uint16_t api, const void* object);
void leave_query(Call& call);

// hot, any-thread. The group's entries are updated when the outermost end is entered and when it returns.
bool enter_group_start(Call& call);
void leave_group_start(Call& call, int result);
bool enter_group_end(Call& call, uint16_t api, bool simulate);
void leave_group_end(Call& call, int result);

// The communicator's health as NCCL just told the program. any-thread, outside of recorded calls.
void note_async_error(const void* comm, int call_result, int async_error);
// What NCCL told the program about the last error of the process; nothing if it is empty or null. any-thread.
void note_last_error(const char* text);
// ncclCommGetUniqueId: the id that ranks joining by ncclCommGrow will be given.
void note_grow_id(const void* comm, const void* unique_id);

// The calling thread is about to go on at `stack_pointer` by longjmp: a recorded call below it is left, and will not
// return. any-thread, signal-safe.
void note_jump(uintptr_t stack_pointer);

// The process ends: marks the ring as left in order, dumps if asked to. `status`: that it exits with, -1 unknown. cold.
void on_process_exit(int status);
// The program is about to become another one: its record ends in order. If that fails, the returned state must be given
// back. any-thread, signal-safe, also in a child of vfork.
struct BeforeExec {
    bool was_recording;
    uint32_t job_state;
};
BeforeExec note_exec();
void note_exec_failed(const BeforeExec& before);
// The program calls quick_exit(): on_process_exit follows once its handlers have run. any-thread.
void note_quick_exit(int status);

}  // namespace titan::tracer
