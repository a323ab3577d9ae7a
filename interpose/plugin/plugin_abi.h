// The layouts of NCCL's profiler plugin interface, versions 1 to 6: the one declaration of them, for the plugin that we
// are (plugin.cpp) and for those that play NCCL's part (tests/simgpu/nccl, tests/unit/interpose/plugin). Our own: NCCL
// ships these headers with its sources only. Facts from src/include/nccl_profiler.h of 2.23.4 (v1) and
// src/include/plugin/profiler/profiler_v*.h of later releases, members keep NCCL's names; ncclResult_t travels as int.
// tests/unit/interpose/test_plugin_abi.py holds them against a checkout.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace titan::interpose::plugin_abi {

// Event types: bits of the mask, and a descriptor's `type`.
enum Type : uint64_t {
    kGroup = 1,
    kColl = 2,
    kP2p = 4,
    kProxyOp = 8,
    kProxyStep = 16,
    kProxyCtrl = 32,
    kKernelCh = 64,
    kNetPlugin = 128,
    kGroupApi = 256,
    kCollApi = 512,
    kP2pApi = 1024,
    kKernelLaunch = 2048,
    kCopyEngine = 4096 | 8192 | 16384,  // v6: collectives by copy engines, which are not simulated
};

enum State : int {
    kSendGpuWait = 8,
    kSendWait = 9,
    kRecvWait = 10,
    kRecvFlushWait = 11,
    kRecvGpuWait = 12,
    kCtrlIdle = 13,
    kCtrlActive = 14,
    kCtrlSleep = 15,
    kCtrlWakeup = 16,
    kCtrlAppend = 17,
    kCtrlAppendEnd = 18,
    kProxyOpInProgress = 19,  // v4
    kSendPeerWait = 20,       // v4
    kKernelChStop = 22,       // v4
    kGroupStartApiStop = 23,  // v5
    kGroupEndApiStart = 24,   // v5
};

// v1 names functions, datatypes, algorithms and protocols by number, its successors by text. Flat structures, as
// NCCL's: a base class could change the padding.
#define TITAN_COLL_NAMED(Word) \
    const char* name;          \
    uint64_t commHash;         \
    uint64_t seqNumber;        \
    Word func;                 \
    const void* sendBuff;      \
    void* recvBuff;            \
    size_t count;              \
    int root;                  \
    Word datatype;
#define TITAN_COLL_V4     \
    uint64_t seqNumber;   \
    const char* func;     \
    const void* sendBuff; \
    void* recvBuff;       \
    size_t count;         \
    int root;             \
    const char* datatype; \
    uint8_t nChannels;    \
    uint8_t nWarps;       \
    const char* algo;     \
    const char* proto;
#define TITAN_P2P_V4      \
    const char* func;     \
    void* buff;           \
    const char* datatype; \
    size_t count;         \
    int peer;             \
    uint8_t nChannels;

struct CollV1 {
    TITAN_COLL_NAMED(uint8_t)
    uint32_t op;
    size_t trafficBytes;
    uint8_t nMaxChannels, nWarps, algo, proto;
    int isCollnet, isNvls;
};
struct CollV2 {
    TITAN_COLL_NAMED(const char*)
    size_t trafficBytes;
    uint8_t nMaxChannels, nWarps;
    const char *algo, *proto;
};
struct CollV3 {
    TITAN_COLL_NAMED(const char*)
    uint8_t nMaxChannels, nWarps;
    const char *algo, *proto;
};
struct CollV4 {
    TITAN_COLL_V4
};
struct CollV5 {
    TITAN_COLL_V4
    void* parentGroup;
};

template <typename Word>
struct P2pNamed {
    const char* name;
    uint64_t commHash;
    Word func;
    void* buff;
    Word datatype;
    size_t count;
    int peer;
};
struct P2pV4 {
    TITAN_P2P_V4
};
struct P2pV5 {
    TITAN_P2P_V4
    void* parentGroup;
};

#undef TITAN_COLL_NAMED
#undef TITAN_COLL_V4
#undef TITAN_P2P_V4

struct ProxyOp {
    pid_t pid;
    uint8_t channelId;
    int peer, nSteps, chunkSize, isSend;
};
struct ProxyStep {
    int step;
};
struct KernelChV3 {
    uint8_t channelId;
};
struct KernelChV4 {
    uint8_t channelId;
    uint64_t pTimer;
};
struct NetPlugin {
    int64_t id;
    void* data;
};
struct GroupApi {
    bool graphCaptured;
    int groupDepth;
};
struct CollApi {
    const char* func;
    size_t count;
    const char* datatype;
    int root;
    void* stream;
    bool graphCaptured;
};
struct P2pApi {
    const char* func;
    size_t count;
    const char* datatype;
    void* stream;
    bool graphCaptured;
};
struct KernelLaunch {
    void* stream;
};
struct CeColl {  // only its size matters: it is the largest member of v6
    uint64_t seqNumber;
    const char* func;
    const void* sendBuff;
    void* recvBuff;
    size_t count;
    int root;
    const char *datatype, *syncStrategy;
    bool intraBatchSync;
    uint32_t batchSize, numBatches, ceSeqNum;
    void* stream;
};

template <typename CollLayout, typename P2pLayout>
struct DescrOfCalls {
    using Coll = CollLayout;
    using P2p = P2pLayout;
    uint8_t type;
    void* parentObj;
    int rank;
    union {
        Coll coll;
        P2p p2p;
        ProxyOp proxyOp;
        ProxyStep proxyStep;
    };
};
using DescrV1 = DescrOfCalls<CollV1, P2pNamed<uint8_t>>;
using DescrV2 = DescrOfCalls<CollV2, P2pNamed<const char*>>;

template <typename CollLayout, typename P2pLayout, typename KernelCh>
struct DescrOfKernels {
    using Coll = CollLayout;
    using P2p = P2pLayout;
    uint8_t type;
    void* parentObj;
    int rank;
    union {
        Coll coll;
        P2p p2p;
        ProxyOp proxyOp;
        ProxyStep proxyStep;
        KernelCh kernelCh;
        NetPlugin netPlugin;
    };
};
using DescrV3 = DescrOfKernels<CollV3, P2pNamed<const char*>, KernelChV3>;
using DescrV4 = DescrOfKernels<CollV4, P2pV4, KernelChV4>;

// Largest: the member of the union that no other version has.
template <typename Largest>
struct DescrOfApi {
    using Coll = CollV5;
    using P2p = P2pV5;
    uint64_t type;
    void* parentObj;
    int rank;
    union {
        GroupApi groupApi;
        CollApi collApi;
        P2pApi p2pApi;
        KernelLaunch kernelLaunch;
        Coll coll;
        P2p p2p;
        ProxyOp proxyOp;
        ProxyStep proxyStep;
        KernelChV4 kernelCh;
        NetPlugin netPlugin;
        Largest largest;
    };
};
using DescrV5 = DescrOfApi<CollV5>;
using DescrV6 = DescrOfApi<CeColl>;

union StateArgsV1 {  // v1 to v3
    struct {
        size_t transSize;
        int steps;
    } proxyOp;
    struct {
        int appendedProxyOps;
    } proxyCtrl;
};
union StateArgsV4 {  // v4 and later
    struct {
        size_t transSize;
    } proxyStep;
    struct {
        int appendedProxyOps;
    } proxyCtrl;
    struct {
        void* data;
    } netPlugin;
    struct {
        uint64_t pTimer;
    } kernelCh;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
using InitV1 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                   Logger logger);
using InitV5 = int(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
                   Logger logger);

// Checks that the fields that we read lie where NCCL puts them.
static_assert(offsetof(DescrV1, parentObj) == 8 && offsetof(DescrV1, rank) == 16 && offsetof(DescrV1, coll) == 24);
static_assert(offsetof(DescrV6, parentObj) == 8 && offsetof(DescrV6, rank) == 16 && offsetof(DescrV6, coll) == 24);
static_assert(offsetof(CollV1, func) == 24 && offsetof(CollV1, sendBuff) == 32 && offsetof(CollV1, root) == 56 &&
              offsetof(CollV1, datatype) == 60 && offsetof(CollV1, op) == 64 && offsetof(CollV1, nMaxChannels) == 80 &&
              sizeof(CollV1) == 96);
static_assert(offsetof(CollV2, root) == 56 && offsetof(CollV2, datatype) == 64 &&
              offsetof(CollV2, trafficBytes) == 72 && offsetof(CollV2, nMaxChannels) == 80);
static_assert(offsetof(CollV3, datatype) == 64 && offsetof(CollV3, nMaxChannels) == 72);
static_assert(offsetof(CollV4, func) == 8 && offsetof(CollV4, root) == 40 && offsetof(CollV4, nChannels) == 56);
static_assert(offsetof(CollV5, nChannels) == 56 && offsetof(CollV5, parentGroup) == 80);
static_assert(offsetof(P2pNamed<uint8_t>, buff) == 24 && offsetof(P2pNamed<uint8_t>, datatype) == 32 &&
              offsetof(P2pNamed<uint8_t>, peer) == 48);
static_assert(offsetof(P2pNamed<const char*>, count) == 40 && offsetof(P2pNamed<const char*>, peer) == 48);
static_assert(offsetof(P2pV4, buff) == 8 && offsetof(P2pV4, peer) == 32 && offsetof(P2pV4, nChannels) == 36);
static_assert(offsetof(P2pV5, peer) == 32 && offsetof(P2pV5, parentGroup) == 40);
static_assert(offsetof(GroupApi, groupDepth) == 4);
static_assert(offsetof(CollApi, root) == 24 && offsetof(CollApi, stream) == 32 &&
              offsetof(CollApi, graphCaptured) == 40);
static_assert(offsetof(P2pApi, stream) == 24 && offsetof(P2pApi, graphCaptured) == 32);
static_assert(offsetof(ProxyOp, channelId) == 4 && offsetof(ProxyOp, peer) == 8 && offsetof(ProxyOp, isSend) == 20);
static_assert(offsetof(KernelChV4, pTimer) == 8);

// The functions of all versions come in the same order; only their parameters changed.
template <typename InitFunction, typename DescrType, typename ArgsType>
struct Plugin {
    using Descr = DescrType;
    using Args = ArgsType;
    const char* name;
    InitFunction* init;
    int (*startEvent)(void* context, void** handle, Descr* description);
    int (*stopEvent)(void* handle);
    int (*recordEventState)(void* handle, int state, Args* args);
    int (*finalize)(void* context);
};
using PluginV1 = Plugin<InitV1, DescrV1, StateArgsV1>;
using PluginV2 = Plugin<InitV1, DescrV2, StateArgsV1>;
using PluginV3 = Plugin<InitV1, DescrV3, StateArgsV1>;
using PluginV4 = Plugin<InitV4, DescrV4, StateArgsV4>;
using PluginV5 = Plugin<InitV5, DescrV5, StateArgsV4>;
using PluginV6 = Plugin<InitV5, DescrV6, StateArgsV4>;

}  // namespace titan::interpose::plugin_abi
