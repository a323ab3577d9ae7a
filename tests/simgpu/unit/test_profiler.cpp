// NCCL's side of the profiler plugin interface. This program is the plugin: NCCL finds it with STATIC_PLUGIN.
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "interpose/plugin/plugin_abi.h"
#include "node.h"
#include "simnccl.h"

using namespace simgpu_test;
namespace abi = titan::interpose::plugin_abi;

namespace {

struct Seen {
    uint64_t type;
    int version, rank, channel = -1, stops = 0;
    void* parent;
    std::string func;
    uint64_t sequence = 0;
    std::thread::id thread;
    std::vector<int> states;
};

// What the plugin was told, in order; a handle is a place in the list, counted from 1.
struct Record {
    std::mutex lock;
    std::vector<Seen> events;
    size_t first = 0;  // of the test case
    int* mask = nullptr;
    int wanted = 0, inits = 0, finalizes = 0;
    ncclResult_t init_answer = ncclSuccess;
    std::string name;

    void reset(int mask_bits) {
        std::lock_guard guard(lock);
        first = events.size();  // nothing is forgotten: NCCL may come back to an old event
        wanted = mask_bits;
        inits = finalizes = 0;
        init_answer = ncclSuccess;
    }
    std::vector<Seen> of(uint64_t type) {
        std::lock_guard guard(lock);
        std::vector<Seen> found;
        for (size_t i = first; i < events.size(); ++i) {
            if (events[i].type == type) {
                found.push_back(events[i]);
            }
        }
        return found;
    }
    std::string order() {  // types as letters
        static const std::map<uint64_t, char> letters = {
            {abi::kGroupApi, 'A'}, {abi::kCollApi, 'C'}, {abi::kP2pApi, 'P'}, {abi::kKernelLaunch, 'L'},
            {abi::kGroup, 'g'},    {abi::kColl, 'c'},    {abi::kP2p, 'p'}};
        std::lock_guard guard(lock);
        std::string text;
        for (size_t i = first; i < events.size(); ++i) {
            const auto found = letters.find(events[i].type);
            text += found == letters.end() ? "" : std::string(1, found->second);
        }
        return text;
    }
};

Record& record() {
    static auto* instance = new Record;
    return *instance;
}

void* handle_of(size_t index) { return reinterpret_cast<void*>(index + 1); }
void* nth_handle(size_t index) { return handle_of(record().first + index); }

template <typename Descr>
int start(void*, void** handle, Descr* d) {
    Record& all = record();
    std::lock_guard guard(all.lock);
    Seen seen{d->type,
              std::is_same_v<Descr, abi::DescrV1>   ? 1
              : std::is_same_v<Descr, abi::DescrV4> ? 4
                                                    : 6,
              d->rank,
              -1,
              0,
              d->parentObj,
              "",
              0,
              std::this_thread::get_id(),
              {}};
    if (d->type == abi::kColl) {
        if constexpr (!std::is_same_v<Descr, abi::DescrV1>) {
            seen.func = d->coll.func;
        }
        seen.sequence = d->coll.seqNumber;
    }
    if constexpr (requires { d->kernelCh; }) {
        if (d->type == abi::kKernelCh) {
            seen.channel = d->kernelCh.channelId;
        }
    }
    all.events.push_back(seen);
    *handle = handle_of(all.events.size() - 1);
    return ncclSuccess;
}

int stop(void* handle) {
    std::lock_guard guard(record().lock);
    ++record().events.at(reinterpret_cast<size_t>(handle) - 1).stops;
    return ncclSuccess;
}

template <typename Args>
int state(void* handle, int value, Args*) {
    std::lock_guard guard(record().lock);
    record().events.at(reinterpret_cast<size_t>(handle) - 1).states.push_back(value);
    return ncclSuccess;
}

int init(void** context, int* mask, const char* name) {
    Record& all = record();
    std::lock_guard guard(all.lock);
    *mask = all.wanted;
    all.mask = mask;
    all.name = name ? name : "";
    ++all.inits;
    *context = all.init_answer == ncclSuccess ? &all : nullptr;
    return all.init_answer;
}

int finalize(void*) {
    std::lock_guard guard(record().lock);
    ++record().finalizes;
    return ncclSuccess;
}

void want(int mask) { __atomic_store_n(record().mask, mask, __ATOMIC_RELAXED); }

struct Environment {
    Environment(const char* plugin, const char* version) {
        setenv("NCCL_PROFILER_PLUGIN", plugin, 1);
        setenv("SIMGPU_PROFILER_MAX_VERSION", version, 1);
    }
    ~Environment() {
        unsetenv("NCCL_PROFILER_PLUGIN");
        unsetenv("SIMGPU_PROFILER_MAX_VERSION");
    }
};

void all_reduce(Node& node, float* data) {
    for (int r = 0; r < node.ranks; ++r) {
        const auto at = static_cast<size_t>(r);
        CHECK(ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclSum, node.comms[at], node.streams[at]) ==
              ncclSuccess);
    }
}

constexpr int kEverything = 4095;

}  // namespace

extern "C" {
__attribute__((visibility("default"))) abi::PluginV1 ncclProfiler_v1 = {
    "one",   [](void** c, int* m) { return init(c, m, nullptr); }, start<abi::DescrV1>, stop, state<abi::StateArgsV1>,
    finalize};
__attribute__((visibility("default"))) abi::PluginV4 ncclProfiler_v4 = {
    "four",
    [](void** c, int* m, const char* n, uint64_t, int, int, int, abi::Logger) { return init(c, m, n); },
    start<abi::DescrV4>,
    stop,
    state<abi::StateArgsV4>,
    finalize};
__attribute__((visibility("default"))) abi::PluginV6 ncclProfiler_v6 = {
    "six",
    [](void** c, uint64_t, int* m, const char* n, int, int, int, abi::Logger) { return init(c, m, n); },
    start<abi::DescrV6>,
    stop,
    state<abi::StateArgsV4>,
    finalize};
}

TEST_CASE("a collective, from its call to the last channel of its kernel") {
    Environment environment("STATIC_PLUGIN", "6");
    record().reset(kEverything);
    {
        Node node(1);
        float data = 1;
        all_reduce(node, &data);
        node.sync();
        CHECK(eventually([] {
            const auto kernels = record().of(abi::kKernelCh);
            return kernels.size() == 2 && kernels[0].stops == 1 && kernels[1].stops == 1;
        }));
    }
    CHECK(record().inits == 1);
    CHECK(record().finalizes == 1);
    REQUIRE(record().order() == "ACLgc");
    const Seen group = record().of(abi::kGroupApi)[0], call = record().of(abi::kCollApi)[0];
    const Seen coll = record().of(abi::kColl)[0], kernel = record().of(abi::kKernelCh)[1];
    CHECK(group.states == std::vector<int>{abi::kGroupStartApiStop, abi::kGroupEndApiStart});
    CHECK(group.stops == 1);
    CHECK(call.parent == nth_handle(0));
    CHECK(coll.parent == nth_handle(1));
    CHECK(coll.func == "AllReduce");
    CHECK(record().events[reinterpret_cast<size_t>(kernel.parent) - 1].type == abi::kColl);
    CHECK(kernel.channel == 1);
    CHECK(kernel.states == std::vector<int>{abi::kKernelChStop});
    CHECK(kernel.thread != coll.thread);
    CHECK(coll.thread == std::this_thread::get_id());
}

TEST_CASE("a group is one event of the API; sequence numbers count each kind of collective") {
    Environment environment("STATIC_PLUGIN", "6");
    record().reset(abi::kColl);
    Node node(1);
    float data[2] = {1, 1};
    ncclComm_t comm = node.comms[0];
    cudaStream_t stream = node.streams[0];
    ncclGroupStart();
    ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, stream);
    ncclBroadcast(data, data, 1, ncclFloat, 0, comm, stream);
    ncclSend(data, 1, ncclFloat, 0, comm, stream);
    ncclRecv(data + 1, 1, ncclFloat, 0, comm, stream);
    ncclGroupEnd();
    CHECK(record().order() == "ACCgcc");  // what has no bit and no child with one is not told
    all_reduce(node, data);
    node.sync();
    const auto colls = record().of(abi::kColl);
    REQUIRE(colls.size() == 3);
    CHECK(colls[1].sequence == 0);
    CHECK(colls[2].sequence == 1);
    CHECK(record().of(abi::kKernelCh).empty());
}

TEST_CASE("older versions see what they know, under the parent that they know") {
    for (const char* version : {"1", "4"}) {
        CAPTURE(version);
        Environment environment("static", version);  // any beginning of the word will do
        record().reset(kEverything);
        {
            Node node(1);
            float data = 1;
            all_reduce(node, &data);
            node.sync();
        }
        REQUIRE(record().order() == "gc");
        CHECK(record().of(abi::kColl)[0].parent == nth_handle(0));
        CHECK(record().of(abi::kColl)[0].version == std::atoi(version));
        CHECK(record().of(abi::kKernelCh).size() == (*version == '4' ? 2 : 0));
    }
}

TEST_CASE("the mask is read again at each call, and an old event of a call is stopped again") {
    Environment environment("STATIC_PLUGIN", "6");
    record().reset(0);
    Node node(1);
    float data = 1;
    all_reduce(node, &data);
    CHECK(record().order() == "");
    want(abi::kCollApi);
    all_reduce(node, &data);
    CHECK(record().order() == "AC");
    want(0);
    all_reduce(node, &data);
    REQUIRE(record().order() == "AC");
    CHECK(record().of(abi::kCollApi)[0].stops == 2);
    node.sync();
}

TEST_CASE("a plugin that fails to start is still told what its mask asks for") {
    Environment environment("STATIC_PLUGIN", "6");
    record().reset(abi::kColl);
    record().init_answer = ncclInternalError;
    {
        Node node(1);
        float data = 1;
        all_reduce(node, &data);
        node.sync();
    }
    CHECK(record().order() == "ACgc");
    CHECK(record().finalizes == 0);
}

TEST_CASE("a stuck channel is one whose kernel never stopped; a queued one never started") {
    Environment environment("STATIC_PLUGIN", "6");
    record().reset(abi::kKernelCh);
    Node node(2);
    float data[2] = {1, 1};
    REQUIRE(simgpuNcclStuckChannelNext(node.comms[1]) == ncclSuccess);
    all_reduce(node, data);
    CHECK(eventually([] { return record().of(abi::kKernelCh).size() == 4; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const Seen& one : record().of(abi::kKernelCh)) {
        CHECK(one.stops == (one.channel == 0));
    }
    all_reduce(node, data);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(record().of(abi::kColl).size() == 4);
    CHECK(record().of(abi::kKernelCh).size() == 4);
    node.abort();
}

TEST_CASE("captured collectives are told at each replay when their kernels are watched, else once") {
    for (const int mask : {int{abi::kColl}, int{abi::kKernelCh}}) {
        Environment environment("STATIC_PLUGIN", "6");
        record().reset(mask);
        Node node(1);
        float data = 1;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        REQUIRE(cudaStreamBeginCapture(node.streams[0], cudaStreamCaptureModeRelaxed) == cudaSuccess);
        all_reduce(node, &data);
        REQUIRE(cudaStreamEndCapture(node.streams[0], &graph) == cudaSuccess);
        REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
        CHECK(record().of(abi::kColl).size() == (mask == abi::kColl ? 1 : 0));
        for (int i = 0; i < 3; ++i) {
            cudaGraphLaunch(exec, node.streams[0]);
        }
        node.sync();
        const bool watched = mask == abi::kKernelCh;
        CHECK(record().of(abi::kColl).size() == (watched ? 3 : 1));
        CHECK(eventually([&] { return record().of(abi::kKernelCh).size() == (watched ? 6u : 0u); }));
    }
}

// Skipped, and run in a process of its own: a failure is for good in a process.
TEST_CASE("a plugin that is not wanted is not used" * doctest::skip()) {
    {
        Environment environment("NONE", "6");
        record().reset(kEverything);
        Node node(1);
        float data = 1;
        all_reduce(node, &data);
        node.sync();
    }
    Environment environment("STATIC_PLUGIN", "6");
    Node node(1);
    CHECK(record().inits == 0);
    CHECK(record().order() == "");
}
