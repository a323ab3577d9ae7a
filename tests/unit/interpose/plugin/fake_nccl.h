// NCCL's part in its profiler plugin interface, one event at a time: looks the plugin up by version and calls it as
// NCCL does.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::test {

// A call, in words that all versions can be given.
struct FakeCall {
    const char* func = "AllReduce";
    uint8_t func_number = 4;
    const void* send = nullptr;
    void* receive = nullptr;
    size_t count = 0;
    int root = 0;  // or peer
    const char* datatype = "ncclFloat32";
    uint8_t datatype_number = 7;
    uint8_t channels = 2;
    void* stream = nullptr;
    bool captured = false;
};

// One NCCL copy that speaks one version of the interface.
class FakeNccl {
  public:
    explicit FakeNccl(int version) : version_(version) {}

    int mask = 0;

    // init: the context, as the plugin set it.
    void* open(uint64_t hash, int size, int rank);
    void close(void* context);

    void* start_group(void* context, int depth);                                               // GroupApi
    void* enter(void* context, const FakeCall& call, void* parent);                            // CollApi, P2pApi
    void* launch(void* context, const FakeCall& call, void* parent, uint64_t hash, int rank);  // Coll, P2p
    void* start_kernel(void* context, void* parent, uint8_t channel, uint64_t timer);
    void* start_proxy(void* context, void* parent, int pid, int peer, int steps, bool is_send);
    void* start_step(void* context, void* parent, int step);
    void* start_raw(void* context, uint64_t type);  // any type, with an empty body

    void state(void* handle, int state, uint64_t timer = 0);
    void proxy_state(void* handle, int state, int steps);  // before v4
    void stop(void* handle);

    // One call alone, the way NCCL emits it: its handle as it was launched.
    void* call(void* context, const FakeCall& call, uint64_t hash = 0, int rank = 0);

    int version() const { return version_; }
    bool tells_api() const { return version_ >= 5; }

  private:
    void* start(void* context, const void* descriptor);
    int version_;
};

}  // namespace titan::test
