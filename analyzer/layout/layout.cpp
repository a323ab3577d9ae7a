#include "layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr int32_t kContradicted = -2;

void put(std::map<int, RankPlace>& places, int rank, Role role, int32_t at) {
    int32_t& place = places[rank].at[static_cast<size_t>(role)];
    place = place == -1 || place == at ? at : kContradicted;
}

// Facts that the program told about its ranks. A value that all ranks share is the size of an axis, not a place on it.
std::map<Role, std::map<int, int32_t>> labelled_places(const Run& run) {
    std::map<Role, std::map<int, int32_t>> labelled;
    for (const Process& process : run.processes) {
        for (const auto& [key, value] : process.labels) {
            const Role role = role_of_name(process.text(key));
            const std::string& text = process.text(value);
            int32_t place = -1;
            const auto end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, place);
            if (row_of(role).has_place && error == std::errc() && rest == end && place >= 0 && process.rank >= 0) {
                labelled[role].try_emplace(process.rank, place);
            }
        }
    }
    std::erase_if(labelled, [](const auto& axis) {
        const auto& places = axis.second;
        return std::ranges::all_of(places, [&](const auto& place) { return place.second == places.begin()->second; });
    });
    return labelled;
}

}  // namespace

const RankPlace* Layout::place_of(int rank) const {
    const auto found = places_.find(rank);
    return found == places_.end() ? nullptr : &found->second;
}

Layout layout_of(const Run& run) {
    Layout layout;
    const std::vector<Group> groups = groups_of(run);
    layout.roles_ = roles_of(run, groups);
    std::map<Role, Dimension> dimensions;
    for (uint32_t index = 0; index < groups.size(); ++index) {
        const CommunicatorRole& role = layout.roles_[index];
        if (!row_of(role.role).has_place) {
            continue;
        }
        const Group& group = groups[index];
        Dimension& dimension = dimensions[role.role];
        dimension.role = role.role;
        const auto size = static_cast<int32_t>(group.ranks.size());
        dimension.regular = dimension.communicators.empty() ? true : dimension.regular && size == dimension.size;
        dimension.size = std::max(dimension.size, size);
        dimension.inferred |= role.source == RoleSource::kInferred;
        dimension.why = dimension.why.empty() ? role.why : dimension.why;
        dimension.communicators.push_back(index);
        for (size_t at = 0; at < group.ranks.size(); ++at) {
            if (group.ranks[at] >= 0) {
                put(layout.places_, group.ranks[at], role.role, static_cast<int32_t>(at));
            }
        }
    }
    for (const auto& [role, places] : labelled_places(run)) {
        auto [found, inserted] = dimensions.try_emplace(role);
        found->second.role = role;
        found->second.by_label = inserted;
        found->second.why = "by titan_label";
        for (const auto& [rank, place] : places) {
            layout.places_[rank].at[static_cast<size_t>(role)] = place;
            found->second.size = std::max(found->second.size, place + 1);
        }
    }
    const size_t world = std::max(run.ranks.size() + run.missing_ranks.size(), static_cast<size_t>(1));
    for (auto& [role, dimension] : dimensions) {
        const auto known =
            std::ranges::count_if(layout.places_, [&](const auto& place) { return place.second.in(role) >= 0; });
        dimension.complete = static_cast<size_t>(known) == world;
        layout.dimensions_.push_back(std::move(dimension));
    }
    layout.all_hosts_known_ = run.missing_ranks.empty();
    std::set<std::string> hosts;
    for (const Process& process : run.processes) {
        layout.places_[process.rank].host = process.host;
        for (const Member& member : process.members) {
            layout.places_[member.global_rank].host = process.host;
        }
        hosts.insert(process.host);
    }
    layout.places_.erase(-1);
    layout.hosts_ = hosts.size();
    return layout;
}

std::string Layout::place_text(int rank) const {
    const RankPlace* place = place_of(rank);
    return place == nullptr ? std::string() : common_text({rank});
}

// The coordinates that all these ranks share, on axes that tell ranks apart.
std::string Layout::common_text(const std::vector<int>& ranks) const {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    const auto first = places_.find(ranks.front());
    if (first == places_.end()) {
        return text;
    }
    const auto shared = [&](auto&& same) {
        return std::ranges::all_of(ranks, [&](int rank) {
            const RankPlace* place = place_of(rank);
            return place != nullptr && same(*place);
        });
    };
    for (const Dimension& dimension : dimensions_) {
        const int32_t at = first->second.in(dimension.role);
        if (dimension.size > 1 && at >= 0 &&
            shared([&](const RankPlace& place) { return place.in(dimension.role) == at; })) {
            add(fmt::format("{} {}", row_of(dimension.role).place, at));
        }
    }
    if (const std::string& host = first->second.host;
        hosts_ > 1 && !host.empty() && shared([&](const RankPlace& place) { return place.host == host; })) {
        add("node " + host);
    }
    return text;
}

std::string Layout::fold(const std::vector<int>& ranks) const {
    if (ranks.size() < 2) {
        return {};
    }
    const RankPlace* first = place_of(ranks.front());
    if (first == nullptr) {
        return {};
    }
    // Exactly those ranks that are in one place: as many as there are in it, and all of them in it.
    const auto exactly = [&](auto&& inside) {
        const auto count =
            std::ranges::count_if(places_, [&](const auto& rank_and_place) { return inside(rank_and_place.second); });
        return static_cast<size_t>(count) == ranks.size() && std::ranges::all_of(ranks, [&](int rank) {
                   const RankPlace* place = place_of(rank);
                   return place != nullptr && inside(*place);
               });
    };
    if (hosts_ > 1 && all_hosts_known_ && !first->host.empty() &&
        exactly([&](const RankPlace& place) { return place.host == first->host; })) {
        return "all of node " + first->host;
    }
    for (const Dimension& dimension : dimensions_) {
        const int32_t at = first->in(dimension.role);
        if (dimension.size > 1 && dimension.complete && at >= 0 &&
            exactly([&](const RankPlace& place) { return place.in(dimension.role) == at; })) {
            return dimension.role == Role::kPipeline
                       ? fmt::format("all of stage {}", at)
                       : fmt::format("{} {} of every group", row_of(dimension.role).place, at);
        }
    }
    return {};
}

std::string Layout::ranks_text(const std::vector<int>& ranks) const {
    constexpr size_t kLongList = 48;
    std::vector<int> sorted = ranks;
    sort_unique(sorted);
    std::string plain = titan::ranks_text(sorted);
    if (sorted.empty()) {
        return plain;
    }
    if (const std::string folded = fold(sorted); !folded.empty()) {
        return plain.size() > kLongList ? fmt::format("{} ({} ranks)", folded, sorted.size())
                                        : fmt::format("{} ({})", folded, plain);
    }
    const std::string common = common_text(sorted);
    return common.empty() ? plain : fmt::format("{} ({})", plain, common);
}

int32_t stage_of(const Run& run, int rank) {
    const RankPlace* place = run.layout == nullptr ? nullptr : run.layout->place_of(rank);
    return place == nullptr ? -1 : place->in(Role::kPipeline);
}

std::string ranks_text(const Run& run, const std::vector<int>& ranks) {
    constexpr size_t kLongList = 24;
    std::string plain = ranks_text(ranks);
    if (run.layout == nullptr || plain.size() <= kLongList) {
        return plain;
    }
    std::vector<int> sorted = ranks;
    sort_unique(sorted);
    const std::string folded = run.layout->fold(sorted);
    const std::string shorter = fmt::format("{} ({} ranks)", folded, sorted.size());
    return folded.empty() || shorter.size() >= plain.size() ? plain : shorter;
}

Sentence ranks_fact(const Run& run, const std::vector<int>& ranks) {
    std::vector<int> sorted = ranks;
    sort_unique(sorted);
    return {ranks_text(run, sorted), RanksFact{sorted}};
}

namespace {

bool has_role_in_name(const Run& run, uint32_t index) {
    const std::string& name = run.communicators[index].name;
    return !name.empty() &&
           std::ranges::count_if(run.communicators, [&](const auto& other) { return other.name == name; }) == 1;
}

}  // namespace

std::vector<int> member_ranks(const Run& run, const Communicator& communicator) {
    std::vector<int> ranks;
    for (int comm_rank = 0; comm_rank < communicator.size; ++comm_rank) {
        if (const int global = run.global_rank(communicator, comm_rank); global >= 0) {
            ranks.push_back(global);
        }
    }
    sort_unique(ranks);
    return ranks;
}

std::string distinct_text(const Run& run, uint32_t index) {
    const Communicator& communicator = run.communicators[index];
    const std::vector<int> ranks = has_role_in_name(run, index) ? std::vector<int>() : member_ranks(run, communicator);
    return communicator_text(communicator) + (ranks.empty() ? "" : " (" + ranks_text(run, ranks) + ")");
}

void add_places(const Run& run, const std::vector<int>& ranks, Sentence& sentence) {
    if (run.layout == nullptr || ranks.empty()) {
        return;
    }
    for (size_t i = 0; i < sentence.parts().size(); ++i) {
        const auto* named = sentence.fact<RanksFact>(i);
        if (named != nullptr && named->ranks == ranks) {
            sentence.reword(i, run.layout->ranks_text(ranks));
            return;
        }
    }
}

void add_members(const Run& run, uint32_t index, Sentence& sentence) {
    if (index == kNoIndex || has_role_in_name(run, index)) {
        return;
    }
    const std::vector<int> members = member_ranks(run, run.communicators[index]);
    size_t at = SIZE_MAX;
    for (size_t i = sentence.parts().size(); i-- > 0;) {
        const auto* communicator = sentence.fact<CommunicatorFact>(i);
        const auto* ranks = sentence.fact<RanksFact>(i);
        if (ranks != nullptr && ranks->ranks == members) {
            return;  // it names them already
        }
        at = communicator != nullptr && communicator->communicator == index ? i : at;
    }
    if (at != SIZE_MAX && !members.empty()) {
        sentence.reword(at, fmt::format("{} ({})", sentence.parts()[at].words, ranks_text(run, members)));
    }
}

// --- hosts of missing ranks

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
