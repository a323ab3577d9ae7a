// Finds ranks that do the same work: those with similar communicators. Ranks of different pipeline stages differ in who
// sends.
#include "same_work.h"

#include <algorithm>
#include <map>
#include <string>

#include "call_order.h"

namespace titan::analyzer {

bool is_all_to_all(int size, size_t sent_to, size_t received_from) {
    const auto others = static_cast<size_t>(std::max(size - 1, 0));
    const size_t least = std::max(others / 2 + 1, std::min<size_t>(others, 3));
    return others > 1 && sent_to >= least && received_from >= least;
}

std::vector<uint32_t> roles_of(const Run& run) {
    std::map<std::string, uint32_t> numbers;
    std::vector<uint32_t> roles;
    for (const Process& process : run.processes) {
        std::vector<std::string> parts;
        for (const Member& member : process.members) {
            if (member.calls.empty() && member.arrivals.empty() && member.sent.empty() && member.received.empty()) {
                continue;
            }
            std::string part = std::string(role_in(process.text(member.name))) + "/" + std::to_string(member.size);
            const auto others = [&member](const auto& peers) {
                return static_cast<size_t>(std::count_if(
                    peers.begin(), peers.end(), [&member](const auto& peer) { return peer.first != member.rank; }));
            };
            if (is_all_to_all(member.size, others(member.sent), others(member.received))) {
                parts.push_back(part + "all");
                continue;
            }
            // A pipeline: the first stage receives no activation, the last one sends none.
            for (const auto* peers : {&member.sent, &member.received}) {
                bool up = false;
                bool down = false;
                for (const auto& [peer, count] : *peers) {
                    up |= peer > member.rank;
                    down |= peer < member.rank;
                }
                part += up ? (down ? "*" : "+") : (down ? "-" : "0");
            }
            parts.push_back(std::move(part));
        }
        std::sort(parts.begin(), parts.end());
        std::string all;
        for (const std::string& part : parts) {
            all += part + ";";
        }
        roles.push_back(numbers.try_emplace(all, static_cast<uint32_t>(numbers.size())).first->second);
    }
    return roles;
}

}  // namespace titan::analyzer
