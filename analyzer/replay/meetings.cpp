#include "meetings.h"

#include <algorithm>
#include <bit>

namespace titan::analyzer {

// None: nobody can tell which meeting it is.
std::optional<Meetings::Key> Meetings::key_of(const Process& process, const CallSignature& call, uint32_t sequence) {
    const Member& member = process.members[call.row];
    const bool pair = format::class_of(call.kind) == format::OpClass::p2p;
    const bool sends = call.kind == OpKind::kSend;
    if (member.communicator == kNoIndex || sequence == CallTimes::kWithBefore - 1 ||
        (pair && !sends && call.kind != OpKind::kRecv) || (pair && (call.peer < 0 || call.peer == member.rank))) {
        return std::nullopt;
    }
    return !pair   ? Key{member.communicator, -1, -1, sequence}
           : sends ? Key{member.communicator, member.rank, call.peer, sequence}
                   : Key{member.communicator, call.peer, member.rank, sequence};
}

uint32_t Meetings::of(const Process& process, const CallSignature& call, uint32_t sequence) {
    const std::optional<Key> key = key_of(process, call, sequence);
    if (!key) {
        return kNoIndex;
    }
    const auto [found, is_new] = meetings_.try_emplace(*key, static_cast<uint32_t>(graph_.meeting_size.size()));
    if (is_new) {
        graph_.meeting_size.push_back(0);
        const bool pair = key->from >= 0;
        const uint64_t bytes = call.count * format::datatype_size_bytes(call.datatype);
        graph_.meeting_route.push_back(
            route_of({key->communicator, key->from, key->to, pair ? OpKind::kSend : call.kind,
                      static_cast<uint8_t>(std::bit_width(bytes))}));
        uint64_t& most_bytes = graph_.routes[graph_.meeting_route.back()].bytes;
        most_bytes = std::max(most_bytes, bytes);
    }
    return found->second;
}

uint32_t Meetings::known(const Process& process, const CallSignature& call, uint32_t sequence) const {
    if (!format::moves_data(call.kind) || call.captured || call.row >= process.members.size()) {
        return kNoIndex;
    }
    const std::optional<Key> key = key_of(process, call, sequence);
    const auto found = key ? meetings_.find(*key) : meetings_.end();
    return found == meetings_.end() ? kNoIndex : found->second;
}

uint32_t Meetings::route_of(const StepRoute& route) {
    const RouteKey key{route.communicator, route.from, route.to, route.kind, route.size_bits};
    const auto [found, inserted] = routes_.try_emplace(key, static_cast<uint32_t>(graph_.routes.size()));
    if (inserted) {
        graph_.routes.push_back(route);
    }
    return found->second;
}

}  // namespace titan::analyzer
