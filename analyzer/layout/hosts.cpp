#include "hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "host/words.h"

namespace titan::analyzer {

std::string likely_host(const Run& run, int rank) {
    std::map<std::string, std::vector<int>> ranks_of;
    for (const Process& process : run.processes) {
        if (process.rank >= 0 && !process.host.empty()) {
            ranks_of[process.host].push_back(process.rank);
        }
    }
    size_t per_host = 0;
    for (const auto& [host, ranks] : ranks_of) {
        per_host = std::max(per_host, ranks.size());
    }
    if (rank < 0 || per_host == 0) {
        return {};
    }
    const auto place = [&](int of) { return static_cast<size_t>(of) / per_host; };
    std::map<size_t, std::string> host_at;
    for (const auto& [host, ranks] : ranks_of) {
        for (const int known : ranks) {
            if (host_at.try_emplace(place(known), host).first->second != host) {
                return {};
            }
        }
    }
    const auto found = host_at.find(place(rank));
    return found == host_at.end() ? std::string() : found->second;
}

std::string likely_host_text(const Run& run, int rank) {
    const std::string host = likely_host(run, rank);
    std::vector<int> there;
    for (const Process& process : run.processes) {
        if (process.rank >= 0 && process.host == host) {
            there.push_back(process.rank);
        }
    }
    return host.empty() ? std::string()
                        : fmt::format("rank {} probably ran on {}, as {} did", rank, host, ranks_text(there));
}

}  // namespace titan::analyzer
