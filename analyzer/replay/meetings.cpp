#include "meetings.h"

#include <algorithm>
#include <bit>

namespace titan::analyzer {
namespace {

constexpr uint32_t kMostApart = 1 << 20;  // of sequence numbers of one communicator: more is damage

}  // namespace

// None: nobody can tell which meeting it is.
std::optional<Meetings::ChannelKey> Meetings::channel_key(const Process& process, const CallSignature& call,
                                                          uint32_t sequence) {
    const Member& member = process.members[call.row];
    const bool pair = format::class_of(call.kind) == format::OpClass::p2p;
    const bool sends = call.kind == OpKind::kSend;
    if (member.communicator == kNoIndex || sequence == CallTimes::kWithBefore - 1 ||
        (pair && !sends && call.kind != OpKind::kRecv) || (pair && (call.peer < 0 || call.peer == member.rank))) {
        return std::nullopt;
    }
    return ChannelKey{member.communicator,
                      !pair   ? -1
                      : sends ? member.rank
                              : call.peer,
                      !pair   ? -1
                      : sends ? call.peer
                              : member.rank};
}

uint32_t Meetings::of(const Process& process, const CallSignature& call, uint32_t sequence) {
    const std::optional<ChannelKey> key = channel_key(process, call, sequence);
    if (!key) {
        return kNoIndex;
    }
    Channel*& channel = channels_of_[static_cast<size_t>(&call - process.history.signatures.data())];
    if (channel == nullptr) {
        channel = &channels_[*key];
    }
    if (channel->base < 0) {
        channel->base = sequence;
    }
    const int64_t distance = int64_t{sequence} - channel->base;
    if (distance < -int64_t{kMostApart} || distance > int64_t{kMostApart}) {
        return kNoIndex;
    }
    for (int64_t i = distance; i < 0; ++i) {
        channel->meetings.push_front(kNoIndex);
        --channel->base;
    }
    const auto place = static_cast<size_t>(int64_t{sequence} - channel->base);
    if (place >= channel->meetings.size()) {
        channel->meetings.resize(place + 1, kNoIndex);
    }
    uint32_t& meeting = channel->meetings[place];
    if (meeting == kNoIndex) {
        meeting = static_cast<uint32_t>(graph_.meeting_size.size());
        graph_.meeting_size.push_back(0);
        const bool pair = format::class_of(call.kind) == format::OpClass::p2p;
        const uint64_t bytes = call.count * format::datatype_size_bytes(call.datatype);
        graph_.meeting_route.push_back(
            route_of({key->communicator, key->from, key->to, pair ? OpKind::kSend : call.kind,
                      static_cast<uint8_t>(std::bit_width(bytes))}));
        uint64_t& most_bytes = graph_.routes[graph_.meeting_route.back()].bytes;
        most_bytes = std::max(most_bytes, bytes);
    }
    return meeting;
}

uint32_t Meetings::known(const Process& process, const CallSignature& call, uint32_t sequence) const {
    if (!format::moves_data(call.kind) || call.captured || call.row >= process.members.size()) {
        return kNoIndex;
    }
    const std::optional<ChannelKey> key = channel_key(process, call, sequence);
    const auto channel = key ? channels_.find(*key) : channels_.end();
    const int64_t place = channel == channels_.end() ? -1 : int64_t{sequence} - channel->second.base;
    return place < 0 || place >= static_cast<int64_t>(channel->second.meetings.size())
               ? kNoIndex
               : channel->second.meetings[static_cast<size_t>(place)];
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
