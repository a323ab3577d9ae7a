// The meetings of a graph: the collectives of a communicator, and each send with its receive.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/hash.h"
#include "run.h"
#include "step_graph.h"

namespace titan::analyzer {

class Meetings {
  public:
    explicit Meetings(StepGraph& graph) : graph_(graph) {}

    // The meeting that the call comes to, which is added if need be; kNoIndex: nobody can tell.
    uint32_t of(const Process& process, const CallSignature& call, uint32_t sequence);
    // The same of a process whose calls are not in the graph: kNoIndex, too, where it has no such meeting.
    uint32_t known(const Process& process, const CallSignature& call, uint32_t sequence) const;

  private:
    // The n-th of a communicator, or of one pair of its ranks in one direction.
    struct Key {
        uint32_t communicator;
        int32_t from;
        int32_t to;
        uint32_t sequence;
        bool operator==(const Key&) const = default;
    };
    struct HashOfKey {
        size_t operator()(const Key& key) const {
            return mix_hash(mix_hash(uint64_t{key.communicator} << 32 | key.sequence, static_cast<uint32_t>(key.from)),
                            static_cast<uint32_t>(key.to));
        }
    };
    using RouteKey = std::tuple<uint32_t, int32_t, int32_t, OpKind, uint8_t>;

    static std::optional<Key> key_of(const Process& process, const CallSignature& call, uint32_t sequence);
    uint32_t route_of(const StepRoute& route);

    StepGraph& graph_;
    std::unordered_map<Key, uint32_t, HashOfKey> meetings_;
    std::map<RouteKey, uint32_t> routes_;
};

}  // namespace titan::analyzer
