// The layouts of NCCL's profiler plugin interface, versions 1 to 6, as far as we read them. Our own declarations: NCCL
// ships these headers with its sources only. Facts from src/include/nccl_profiler.h of 2.23.4 (v1) and
// src/include/plugin/profiler/profiler_v*.h of later releases; tests/unit/interpose/test_plugin_abi.py holds them against a
// checkout. A descriptor is a head, which all versions share but for the width of `type`, and a body by type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::interpose::plugin_abi {

// Event types: bits of the mask and of `type`.
enum Type : uint64_t {
    kGroup = 1 << 0,
    kColl = 1 << 1,
    kP2p = 1 << 2,
    kProxyOp = 1 << 3,
    kProxyStep = 1 << 4,
    kProxyCtrl = 1 << 5,
    kKernelCh = 1 << 6,
    kNetPlugin = 1 << 7,
    kGroupApi = 1 << 8,
    kCollApi = 1 << 9,
    kP2pApi = 1 << 10,
};

template <typename TypeField>
struct Descriptor {
    TypeField type;
    void* parent;
    int rank;  // filled in for Coll, P2p, ProxyOp and ProxyStep only
    alignas(8) unsigned char body[8];
};
using NarrowDescriptor = Descriptor<uint8_t>;  // v1 to v4
using WideDescriptor = Descriptor<uint64_t>;   // v5 on
static_assert(offsetof(NarrowDescriptor, parent) == 8 && offsetof(WideDescriptor, parent) == 8);
static_assert(offsetof(NarrowDescriptor, rank) == 16 && offsetof(WideDescriptor, rank) == 16);
static_assert(offsetof(NarrowDescriptor, body) == 24 && offsetof(WideDescriptor, body) == 24);

struct CollV1 {
    const char* name;
    uint64_t commHash;
    uint64_t seqNumber;
    uint8_t func;
    const void* sendBuff;
    void* recvBuff;
    size_t count;
    int root;
    uint8_t datatype;
    uint32_t op;
    size_t trafficBytes;
    uint8_t nMaxChannels;
};
static_assert(offsetof(CollV1, func) == 24 && offsetof(CollV1, sendBuff) == 32 && offsetof(CollV1, root) == 56 &&
              offsetof(CollV1, datatype) == 60 && offsetof(CollV1, nMaxChannels) == 80);

struct CollV2 {
    const char* name;
    uint64_t commHash;
    uint64_t seqNumber;
    const char* func;
    const void* sendBuff;
    void* recvBuff;
    size_t count;
    int root;
    const char* datatype;
    size_t trafficBytes;
    uint8_t nMaxChannels;
};
static_assert(offsetof(CollV2, root) == 56 && offsetof(CollV2, datatype) == 64 && offsetof(CollV2, nMaxChannels) == 80);

struct CollV3 {
    const char* name;
    uint64_t commHash;
    uint64_t seqNumber;
    const char* func;
    const void* sendBuff;
    void* recvBuff;
    size_t count;
    int root;
    const char* datatype;
    uint8_t nMaxChannels;
};
static_assert(offsetof(CollV3, datatype) == 64 && offsetof(CollV3, nMaxChannels) == 72);

struct CollV4 {  // and later
    uint64_t seqNumber;
    const char* func;
    const void* sendBuff;
    void* recvBuff;
    size_t count;
    int root;
    const char* datatype;
    uint8_t nChannels;
};
static_assert(offsetof(CollV4, func) == 8 && offsetof(CollV4, root) == 40 && offsetof(CollV4, nChannels) == 56);

struct P2pV1 {
    const char* name;
    uint64_t commHash;
    uint8_t func;
    void* buff;
    uint8_t datatype;
    size_t count;
    int peer;
};
static_assert(offsetof(P2pV1, buff) == 24 && offsetof(P2pV1, datatype) == 32 && offsetof(P2pV1, peer) == 48);

struct P2pV2 {  // and v3
    const char* name;
    uint64_t commHash;
    const char* func;
    void* buff;
    const char* datatype;
    size_t count;
    int peer;
};
static_assert(offsetof(P2pV2, buff) == 24 && offsetof(P2pV2, count) == 40 && offsetof(P2pV2, peer) == 48);

struct P2pV4 {  // and later
    const char* func;
    void* buff;
    const char* datatype;
    size_t count;
    int peer;
    uint8_t nChannels;
};
static_assert(offsetof(P2pV4, buff) == 8 && offsetof(P2pV4, peer) == 32 && offsetof(P2pV4, nChannels) == 36);

struct GroupApi {  // v5 on
    bool graphCaptured;
    int groupDepth;
};
static_assert(offsetof(GroupApi, groupDepth) == 4);

struct CollApi {  // v5 on
    const char* func;
    size_t count;
    const char* datatype;
    int root;
    void* stream;
    bool graphCaptured;
};
static_assert(offsetof(CollApi, root) == 24 && offsetof(CollApi, stream) == 32 &&
              offsetof(CollApi, graphCaptured) == 40);

struct P2pApi {  // v5 on
    const char* func;
    size_t count;
    const char* datatype;
    void* stream;
    bool graphCaptured;
};
static_assert(offsetof(P2pApi, stream) == 24 && offsetof(P2pApi, graphCaptured) == 32);

struct ProxyOp {
    int pid;  // of the process that the parent belongs to
    uint8_t channelId;
    int peer;
    int nSteps;
    int chunkSize;
    int isSend;
};
static_assert(offsetof(ProxyOp, channelId) == 4 && offsetof(ProxyOp, peer) == 8 && offsetof(ProxyOp, isSend) == 20);

struct ProxyStep {
    int step;
};

struct KernelChV3 {
    uint8_t channelId;
};

struct KernelChV4 {  // and later
    uint8_t channelId;
    uint64_t pTimer;
};
static_assert(offsetof(KernelChV4, pTimer) == 8);

// Arguments of recordEventState. v1 to v3 have steps for a proxy, v4 on the GPU's clock for a kernel channel.
struct ProxyOpState {
    size_t transSize;
    int steps;
};
struct KernelChState {
    uint64_t pTimer;
};

// The exported symbol of every version: a name and five functions. ncclResult_t travels as int; `init` differs.
template <typename Init>
struct Profiler {
    const char* name;
    Init* init;
    int (*startEvent)(void* context, void** handle, void* descriptor);
    int (*stopEvent)(void* handle);
    int (*recordEventState)(void* handle, int state, void* arguments);
    int (*finalize)(void* context);
};
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
using InitV1 = int(void** context, int* mask);  // to v3
using InitV4 = int(void** context, int* mask, const char* name, uint64_t hash, int nodes, int size, int rank, Logger);
using InitV5 = int(void** context, uint64_t hash, int* mask, const char* name, int nodes, int size, int rank, Logger);
static_assert(sizeof(Profiler<InitV1>) == 6 * sizeof(void*));

}  // namespace titan::interpose::plugin_abi
