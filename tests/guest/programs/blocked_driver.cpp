// A driver one of whose functions does not return to one thread; the others have devices and communicators of their
// own, and go on.
//
//   blocked_driver all          the functions that a whole run calls beside the main thread
//   blocked_driver FUNCTION     the first call of it beside the main thread hangs until the end
#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "client.h"
#include "simgpu_hook.h"

using client::Rank;
using client::say;

namespace {

std::string blocked_name;
std::thread::id main_thread;
std::atomic<bool> is_blocked{false};
std::atomic<bool> is_over{false};
std::mutex names_lock;
std::set<std::string> names;

// Called at the entry of each function of the driver and the runtime.
void on_call(int site, SimgpuApiCall* call) {
    if (site != kSimgpuEnter || std::this_thread::get_id() == main_thread || is_over) {
        return;
    }
    if (blocked_name == "all") {
        const std::lock_guard lock(names_lock);
        names.insert(call->name);
    } else if (blocked_name == call->name && !is_blocked.exchange(true)) {
        while (!is_over) {
            usleep(1000);
        }
    }
}

cudaGraphExec_t capture(const Rank& r) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
    NCCL(ncclAllReduce(r.send, r.receive, 16, ncclFloat32, ncclSum, r.comm, r.stream));
    CUDA(cudaStreamEndCapture(r.stream, &graph));
    CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

// What programs do with a device, from the first call on it to its reset.
void use_device(int device) {
    CUDA(cudaSetDevice(device));
    Rank r;
    CUDA(cudaSetDevice(device));
    cudaStream_t stream = nullptr;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    r.stream = stream;
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRank(&r.comm, 1, id, 0));
    r.reduce_and_sync();
    ncclComm_t child = nullptr;
    NCCL(ncclCommSplit(r.comm, 0, 0, &child, nullptr));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(r.send, 16, ncclFloat32, 0, child, stream));
    NCCL(ncclRecv(r.receive, 16, ncclFloat32, 0, child, stream));
    NCCL(ncclGroupEnd());
    cudaGraphExec_t exec = capture(r);
    CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaGraphExecDestroy(exec));
    r.all_reduce();
    NCCL(ncclCommAbort(child));
    r.sync();
    NCCL(ncclCommDestroy(r.comm));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaDeviceReset());
}

SimgpuHookState& hook_of_driver() {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    REQUIRE(driver != nullptr);
    return *static_cast<SimgpuHookState*>(dlsym(driver, "simgpu_api_hook"));
}

}  // namespace

int main(int argc, char** argv) {
    REQUIRE(argc == 2);
    blocked_name = argv[1];
    main_thread = std::this_thread::get_id();
    Rank first;
    first.join();
    hook_of_driver().hook = on_call;
    first.reduce_and_sync();
    std::atomic<bool> is_done{false};
    std::thread other([&] {
        use_device(1);
        is_done = true;
    });
    while (!is_blocked && !is_done) {
        usleep(1000);
    }
    first.all_reduce();
    NCCL(ncclCommAbort(first.comm));
    use_device(2);
    if (blocked_name == "all") {
        usleep(100'000);
        for (const std::string& name : names) {
            say("%s", name.c_str());
        }
    } else {
        say("the main thread is done");
    }
    is_over = true;
    other.join();
    return 0;
}
