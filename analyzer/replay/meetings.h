// The meetings of a graph: the collectives of a communicator, and each send with its receive.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "run.h"
#include "step_graph.h"

namespace titan::analyzer {

class Meetings {
  public:
    explicit Meetings(StepGraph& graph) : graph_(graph) {}

    // Calls of this process follow.
    void begin(const Process& process) { channels_of_.assign(process.history.signatures.size(), nullptr); }
    // The meeting that the call comes to, which is added if need be; kNoIndex: nobody can tell. `call` is one of the
    // process's signatures.
    uint32_t of(const Process& process, const CallSignature& call, uint32_t sequence);
    // The same of a process whose calls are not in the graph: kNoIndex, too, where it has no such meeting.
    uint32_t known(const Process& process, const CallSignature& call, uint32_t sequence) const;

  private:
    // Those of one communicator, or of one pair of its ranks in one direction, by sequence number.
    struct Channel {
        int64_t base = -1;
        std::deque<uint32_t> meetings;
    };
    struct ChannelKey {
        uint32_t communicator;
        int32_t from;
        int32_t to;
        bool operator==(const ChannelKey&) const = default;
    };
    struct HashOfKey {
        size_t operator()(const ChannelKey& key) const {
            return mix_hash(mix_hash(key.communicator, static_cast<uint32_t>(key.from)), static_cast<uint32_t>(key.to));
        }
    };
    using RouteKey = std::tuple<uint32_t, int32_t, int32_t, OpKind, uint8_t>;

    static std::optional<ChannelKey> channel_key(const Process& process, const CallSignature& call, uint32_t sequence);
    uint32_t route_of(const StepRoute& route);

    StepGraph& graph_;
    std::unordered_map<ChannelKey, Channel, HashOfKey> channels_;
    std::map<RouteKey, uint32_t> routes_;
    std::vector<Channel*> channels_of_;  // by signature of the process at hand
};

}  // namespace titan::analyzer
