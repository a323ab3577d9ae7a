#include "profiler_plugin.h"

#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <set>

namespace simgpu {

namespace {

constexpr int kNewest = 6;

// What the emulated NCCL knows: an older one asks for older plugins only.
int newest_known() {
    const char* text = std::getenv("SIMGPU_PROFILER_MAX_VERSION");
    const int limit = text ? std::atoi(text) : kNewest;
    return limit < kNewest ? limit : kNewest;
}

void log(int, unsigned long, const char*, int, const char* format, ...) {
    const char* level = std::getenv("NCCL_DEBUG");
    if (level && std::strcmp(level, "INFO") == 0) {
        va_list args;
        va_start(args, format);
        char text[512];
        std::vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        std::fprintf(stderr, "simgpu NCCL INFO %s\n", text);
    }
}

// "STATIC_PLUGIN", or any beginning of it, means the program itself.
void* try_open(const std::string& name) {
    if (name.empty()) {
        return nullptr;
    }
    const bool program = strncasecmp(name.c_str(), "STATIC_PLUGIN", name.size()) == 0;
    return dlopen(program ? nullptr : name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* open_library(const char* name) {
    if (!name || !*name) {
        return try_open("libnccl-profiler.so");
    }
    const std::string text = name;
    if (void* library = try_open(text)) {
        return library;
    }
    const bool is_file = text.find('/') != std::string::npos;
    const bool is_library = text.rfind("lib", 0) == 0 && text.size() > 3 && text.substr(text.size() - 3) == ".so";
    return is_file || is_library ? nullptr : try_open("libnccl-profiler-" + text + ".so");
}

struct Loaded {
    std::mutex lock;
    int users = 0;
    bool failed = false;  // for good, as in NCCL
    void* library = nullptr;
    int version = 0;
    int known = 0;
    const void* table = nullptr;
    int mask = 0;  // the plugin keeps a pointer to it
};

Loaded& loaded() {
    static auto* instance = new Loaded;  // other libraries' destructors may still call us
    return *instance;
}

bool find_table(Loaded& state) {
    state.known = newest_known();
    for (state.version = state.known; state.version > 0; --state.version) {
        const std::string symbol = "ncclProfiler_v" + std::to_string(state.version);
        state.table = dlsym(state.library, symbol.c_str());
        if (state.table) {
            return true;
        }
    }
    return false;
}

bool acquire() {
    Loaded& state = loaded();
    std::lock_guard lock(state.lock);
    if (state.failed) {
        return false;
    }
    if (!state.table) {
        const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
        const bool refused = name && strcasecmp(name, "none") == 0;
        state.library = refused ? nullptr : open_library(name);
        if (!state.library || !find_table(state)) {
            if (state.library) {
                dlclose(state.library);
            }
            state.library = nullptr;
            state.failed = true;
            return false;
        }
    }
    ++state.users;
    return true;
}

void release() {
    Loaded& state = loaded();
    std::lock_guard lock(state.lock);
    if (state.users > 0 && --state.users == 0) {
        dlclose(state.library);
        state.library = nullptr;
        state.table = nullptr;
    }
}

// The loaded table as its own type.
template <typename Call>
void with_table(Call call) {
    const Loaded& state = loaded();
    const void* table = state.table;
    if (!table) {
        return;
    }
    switch (state.version) {
        case 1: return call(*static_cast<const abi::PluginV1*>(table));
        case 2: return call(*static_cast<const abi::PluginV2*>(table));
        case 3: return call(*static_cast<const abi::PluginV3*>(table));
        case 4: return call(*static_cast<const abi::PluginV4*>(table));
        case 5: return call(*static_cast<const abi::PluginV5*>(table));
        default: return call(*static_cast<const abi::PluginV6*>(table));
    }
}

// v1's numbers: the order of NCCL's enum of functions.
uint8_t function_number(const char* word) {
    constexpr const char* kWords[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
    for (uint8_t i = 0; i < 8; ++i) {
        if (std::strcmp(kWords[i], word) == 0) {
            return i;
        }
    }
    return 6;
}

template <typename Word>
Word function_as(const ProfilerEvent& event) {
    if constexpr (std::is_same_v<Word, uint8_t>) {
        return function_number(event.func);
    } else {
        return event.func;
    }
}

template <typename Word>
Word datatype_as(const ProfilerEvent& event) {
    if constexpr (std::is_same_v<Word, uint8_t>) {
        return static_cast<uint8_t>(event.datatype);
    } else {
        return datatype_word(event.datatype);
    }
}

// Up to v3 every event carries the communicator, unless a newer NCCL serves the old plugin: it has lost it by then.
template <typename Body>
void name_communicator(Body& body, const Core& core) {
    const bool native = loaded().known <= 3;
    body.name = native && !core.name.empty() ? core.name.c_str() : nullptr;
    body.commHash = native ? core.hash : 0;
}

template <typename Body>
void fill_coll(Body& body, const Core& core, const ProfilerEvent& event) {
    constexpr bool named = requires { body.commHash; };
    if constexpr (named) {
        name_communicator(body, core);
        body.nMaxChannels = event.channels;
    } else {
        body.nChannels = event.channels;
    }
    if constexpr (requires { body.parentGroup; }) {
        body.parentGroup = event.parent_group;
    }
    if constexpr (std::is_same_v<decltype(body.algo), uint8_t>) {
        body.algo = 1;   // ring
        body.proto = 2;  // simple
    } else {
        body.algo = "RING";
        body.proto = "SIMPLE";
    }
    body.seqNumber = event.sequence;
    body.func = function_as<decltype(body.func)>(event);
    body.sendBuff = event.send;
    body.recvBuff = event.recv;
    body.count = event.count;
    body.root = event.root;
    body.datatype = datatype_as<decltype(body.datatype)>(event);
    body.nWarps = 16;
}

template <typename Body>
void fill_p2p(Body& body, const Core& core, const ProfilerEvent& event) {
    if constexpr (requires { body.commHash; }) {
        name_communicator(body, core);
    } else {
        body.nChannels = event.channels;
    }
    if constexpr (requires { body.parentGroup; }) {
        body.parentGroup = event.parent_group;
    }
    body.func = function_as<decltype(body.func)>(event);
    body.buff = event.recv ? event.recv : const_cast<void*>(event.send);
    body.datatype = datatype_as<decltype(body.datatype)>(event);
    body.count = event.count;
    body.peer = event.root;
}

template <typename Descr>
bool fill_api(Descr& out, const ProfilerEvent& event) {  // v5 on
    switch (event.type) {
        case abi::kGroupApi: out.groupApi = {event.captured, event.depth}; return true;
        case abi::kCollApi:
            out.collApi = {event.func, event.count,  datatype_word(event.datatype),
                           event.root, event.stream, event.captured};
            return true;
        case abi::kP2pApi:
            out.p2pApi = {event.func, event.count, datatype_word(event.datatype), event.stream, event.captured};
            return true;
        case abi::kKernelLaunch: out.kernelLaunch = {event.stream}; return true;
        default: return false;
    }
}

// False: the plugin's version has no such event.
template <typename Descr>
bool describe(Descr& out, const Core& core, const ProfilerEvent& event) {
    out.type = static_cast<decltype(out.type)>(event.type);
    out.parentObj = event.parent;
    out.rank = event.rank;
    constexpr bool v5 = requires { out.collApi; };
    switch (event.type) {
        case abi::kGroup:
        case abi::kProxyCtrl: return true;
        case abi::kColl:
            out.parentObj = v5 ? event.parent : event.parent_group;
            fill_coll(out.coll, core, event);
            return true;
        case abi::kP2p:
            out.parentObj = v5 ? event.parent : event.parent_group;
            fill_p2p(out.p2p, core, event);
            return true;
        case abi::kProxyOp:
            out.proxyOp = {getpid(), event.channel, event.root, event.steps, event.chunk_bytes, event.is_send};
            return true;
        case abi::kProxyStep: out.proxyStep = {event.steps}; return true;
        case abi::kKernelCh:
            if constexpr (requires { out.kernelCh.pTimer; }) {
                out.kernelCh = {event.channel, event.timer};
                return true;
            } else if constexpr (requires { out.kernelCh; }) {
                out.kernelCh = {event.channel};
                return true;
            }
            return false;
        default: break;
    }
    if constexpr (v5) {
        return fill_api(out, event);
    }
    return false;
}

}  // namespace

const char* datatype_word(ncclDataType_t type) {
    switch (type) {
#define WORD(name) \
    case name: return #name;
        WORD(ncclInt8)
        WORD(ncclInt32)
        WORD(ncclUint32)
        WORD(ncclInt64)
        WORD(ncclUint64)
        WORD(ncclFloat16)
        WORD(ncclFloat32)
        WORD(ncclFloat64)
        WORD(ncclBfloat16)
        WORD(ncclFloat8e4m3)
        WORD(ncclFloat8e5m2)
#undef WORD
        default: return "Unknown";  // ncclUint8, too
    }
}

bool plugin_loaded() { return loaded().table != nullptr; }
bool plugin_sees_api() { return loaded().known >= 5; }
int plugin_mask() { return __atomic_load_n(&loaded().mask, __ATOMIC_RELAXED); }

void plugin_open(Core& core) {
    if (!acquire()) {
        return;
    }
    core.profiled = true;
    std::set<uint64_t> hosts;
    for (int r = 0; r < core.ranks; ++r) {
        hosts.insert(core.segment->member(r).host);
    }
    core.nodes = static_cast<int>(hosts.size());
    const char* name = core.name.empty() ? nullptr : core.name.c_str();
    int* mask = &loaded().mask;
    with_table([&](const auto& plugin) {
        using Init = decltype(plugin.init);
        int result;
        if constexpr (std::is_same_v<Init, abi::InitV1*>) {
            result = plugin.init(&core.profiler_context, mask);
        } else if constexpr (std::is_same_v<Init, abi::InitV4*>) {
            result = plugin.init(&core.profiler_context, mask, name, core.hash, core.nodes, core.ranks, core.rank, log);
        } else {
            result = plugin.init(&core.profiler_context, core.hash, mask, name, core.nodes, core.ranks, core.rank, log);
        }
        if (result != ncclSuccess) {
            // NCCL goes on with the plugin and the mask as they are, and so do we.
            log(0, 0, "", 0, "Profiler init failed with error '%d'. Continue without profiler.", result);
        }
        if (loaded().version < 6) {
            *mask &= ~static_cast<int>(abi::kCopyEngine);
        }
    });
}

void plugin_close(Core& core) {
    if (!core.profiled) {
        return;
    }
    core.profiled = false;
    if (core.profiler_context) {
        with_table([&](const auto& plugin) { plugin.finalize(core.profiler_context); });
        core.profiler_context = nullptr;
    }
    release();
}

void plugin_start(const Core& core, void** handle, const ProfilerEvent& event) {
    with_table([&](const auto& plugin) {
        typename std::remove_cvref_t<decltype(plugin)>::Descr description = {};
        if (describe(description, core, event)) {
            plugin.startEvent(core.profiler_context, handle, &description);
        }
    });
}

void plugin_stop(void* handle) {
    if (handle) {
        with_table([&](const auto& plugin) { plugin.stopEvent(handle); });
    }
}

void plugin_record(void* handle, abi::State state, const ProfilerStateArgs& args) {
    const int version = loaded().version;
    const bool since_v5 = state == abi::kGroupStartApiStop || state == abi::kGroupEndApiStart;
    const bool since_v4 =
        state == abi::kProxyOpInProgress || state == abi::kSendPeerWait || state == abi::kKernelChStop;
    if (!handle || (since_v5 && version < 5) || (since_v4 && version < 4)) {
        return;
    }
    with_table([&](const auto& plugin) {
        typename std::remove_cvref_t<decltype(plugin)>::Args out = {};
        const bool control = state >= abi::kCtrlIdle && state <= abi::kCtrlAppendEnd;
        if (control) {
            out.proxyCtrl.appendedProxyOps = args.appended;
        } else if constexpr (requires { out.kernelCh; }) {
            if (state == abi::kKernelChStop) {
                out.kernelCh.pTimer = args.timer;
            } else {
                out.proxyStep.transSize = args.bytes;
            }
        }
        plugin.recordEventState(handle, state, since_v5 ? nullptr : &out);
    });
}

}  // namespace simgpu
