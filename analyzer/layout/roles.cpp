// Roles of communicators: by name, by having the ranks of a named one, else by how they divide the world and which
// calls run on them. A communicator that fits two roles gets neither.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "layout.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

// Predicting who a silent member is costs the size of its communicator each.
constexpr size_t kMaxPredicted = 256;
constexpr size_t kLookedAtMembers = 16;
constexpr size_t kLookedAtCalls = 64;

// Communicators of one size whose ranks lie equally far apart, dividing the world among them.
struct Family {
    std::vector<uint32_t> communicators;
    std::set<std::vector<int>> groups;  // several communicators may have the same ranks
    int stride = 0;
    size_t size = 0;
    size_t calls = 0;
    size_t p2p = 0;
    size_t all_to_all = 0;
    bool in_groups = false;   // some send and receive at once
    bool in_turns = true;     // all members send and receive by turns
    size_t most_targets = 0;  // to whom a member sends
    size_t least_targets = SIZE_MAX;
    std::map<OpKind, std::set<uint64_t>> counts;  // elements that were passed

    bool is_exchange() const { return in_turns && in_groups; }
};

// How a member passes messages. The first stage of a pipeline sends several times before it receives, when the pipeline
// fills, or never receives.
void look_at_messages(const Process& process, uint32_t row, Family& family) {
    std::set<int32_t> targets;
    bool receives = false;
    OpKind before{};
    for (uint32_t place = 0; place < process.history.size(); ++place) {
        const CallSignature& call = process.history[place];
        if (call.row != row || format::class_of(call.kind) != format::OpClass::p2p) {
            continue;
        }
        family.in_turns &= call.kind != before;
        before = call.kind;
        receives |= call.kind == OpKind::kRecv;
        if (call.kind == OpKind::kSend) {
            targets.insert(call.peer);
        }
    }
    family.in_turns &= receives == !targets.empty();
    for (size_t i = 1; i < process.entries.size() && !family.in_groups; ++i) {
        const Entry& call = process.entries[i];
        const Entry& other = process.entries[i - 1];
        family.in_groups = call.group != 0 && call.group == other.group && call.row == row && other.row == row &&
                           call.kind != other.kind && format::class_of(call.kind) == format::OpClass::p2p &&
                           format::class_of(other.kind) == format::OpClass::p2p;
    }
    family.most_targets = std::max(family.most_targets, targets.size());
    family.least_targets = std::min(family.least_targets, targets.size());
}

void count_operations(const Run& run, Family& family) {
    size_t looked_at = 0;
    for (const uint32_t index : family.communicators) {
        for (const MemberRef ref : run.communicators[index].members) {
            if (looked_at++ == kLookedAtMembers) {
                return;
            }
            for (const CallSignature& call : run.process(ref).history.signatures) {
                if (call.row == ref.row && !call.arguments_lost) {
                    family.counts[call.kind].insert(call.count);
                }
            }
            const std::vector<Entry>& entries = run.process(ref).entries;
            size_t seen = 0;
            for (auto entry = entries.rbegin(); entry != entries.rend() && seen < kLookedAtCalls; ++entry) {
                if (entry->row != ref.row || format::class_of(entry->kind) == format::OpClass::lifecycle) {
                    continue;
                }
                ++seen;
                ++family.calls;
                family.p2p += format::class_of(entry->kind) == format::OpClass::p2p ? 1 : 0;
                family.all_to_all += entry->kind == OpKind::kAllToAll ? 1 : 0;
            }
            look_at_messages(run.process(ref), ref.row, family);
        }
    }
}

// Families that divide the world; of the rest nothing can be said.
std::vector<Family> families_of(const Run& run, const std::vector<Group>& groups,
                                const std::vector<CommunicatorRole>& roles) {
    std::map<std::pair<size_t, int>, Family> by_shape;
    for (uint32_t index = 0; index < groups.size(); ++index) {
        const Group& group = groups[index];
        if (roles[index].role == Role::kNoRole && group.complete && group.ranks.size() > 1 && group.stride > 0) {
            Family& family = by_shape[{group.ranks.size(), group.stride}];
            family.size = group.ranks.size();
            family.stride = group.stride;
            family.communicators.push_back(index);
            family.groups.insert(group.ranks);
        }
    }
    std::vector<Family> families;
    for (auto& [shape, family] : by_shape) {
        std::set<int> covered;
        for (const std::vector<int>& ranks : family.groups) {
            covered.insert(ranks.begin(), ranks.end());
        }
        const size_t ranks = family.groups.size() * family.size;
        if (covered.size() == ranks && run.world_size > 0 && ranks == static_cast<size_t>(run.world_size)) {
            count_operations(run, family);
            families.push_back(std::move(family));
        }
    }
    std::ranges::sort(families, [](const Family& a, const Family& b) { return a.stride < b.stride; });
    return families;
}

// The counts that are reduced, without the norms and flags that any group agrees on.
std::set<uint64_t> reduced_counts(const Family& family, OpKind kind) {
    constexpr uint64_t kFewElements = 64;
    const auto counts = family.counts.find(kind);
    return counts == family.counts.end()
               ? std::set<uint64_t>()
               : std::set<uint64_t>(counts->second.upper_bound(kFewElements), counts->second.end());
}

// Hybrid sharding: one family adds up exactly the counts that the other reduces and scatters, and nothing else.
bool sums_the_shards_of(const Family& outer, const Family& inner) {
    const std::set<uint64_t> scattered = reduced_counts(inner, OpKind::kReduceScatter);
    const std::set<uint64_t> summed = reduced_counts(outer, OpKind::kAllReduce);
    return !summed.empty() && reduced_counts(inner, OpKind::kAllReduce).empty() &&
           std::includes(scattered.begin(), scattered.end(), summed.begin(), summed.end());
}

class RoleFinder {
  public:
    RoleFinder(const Run& run, const std::vector<Group>& groups)
        : run_(run), groups_(groups), roles_(run.communicators.size()) {}

    std::vector<CommunicatorRole> find() {
        by_name();
        find_stages_of_one_rank();
        by_the_ranks_of_others();
        infer();
        return std::move(roles_);
    }

  private:
    void by_name() {
        for (uint32_t index = 0; index < roles_.size(); ++index) {
            const Communicator& communicator = run_.communicators[index];
            const Role role = role_of_name(communicator.name);
            if (role != Role::kNoRole) {
                roles_[index] = {role, RoleSource::kName, fmt::format("by its name, {}", communicator.name)};
                taken_.insert(role);
            } else if (run_.world_size > 1 && communicator.size == run_.world_size) {
                roles_[index] = {Role::kWorld, RoleSource::kInferred, "it has all ranks of the job"};
            }
        }
    }

    // A pipeline of all ranks, each of which is a stage.
    void find_stages_of_one_rank() {
        for (uint32_t index = 0; index < roles_.size() && !taken_.contains(Role::kPipeline); ++index) {
            if (roles_[index].role == Role::kWorld && groups_[index].complete && talks_to_neighbours(index)) {
                taken_.insert(Role::kPipeline);
                roles_[index] = {
                    Role::kPipeline, RoleSource::kInferred,
                    "it has all ranks of the job, and each sends to and receives from its neighbours alone"};
            }
        }
    }

    bool talks_to_neighbours(uint32_t index) const {
        size_t calls = 0;
        Family messages;
        for (const MemberRef ref : run_.communicators[index].members) {
            look_at_messages(run_.process(ref), ref.row, messages);
            const int32_t rank = run_.member(ref).rank;
            const int32_t last = run_.communicators[index].size - 1;
            for (const CallSignature& call : run_.process(ref).history.signatures) {
                if (call.row != ref.row || format::class_of(call.kind) == format::OpClass::lifecycle) {
                    continue;
                }
                const int32_t distance = std::abs(call.peer - rank);
                if (format::class_of(call.kind) != format::OpClass::p2p || (distance != 1 && distance != last)) {
                    return false;
                }
                ++calls;
            }
        }
        // Two ranks have no others to talk to.
        return calls != 0 && !messages.is_exchange() && run_.communicators[index].size > 2;
    }

    void by_the_ranks_of_others() {
        std::map<std::vector<int>, uint32_t> named;
        for (uint32_t index = 0; index < roles_.size(); ++index) {
            if (row_of(roles_[index].role).has_place && groups_[index].complete) {
                named.try_emplace(groups_[index].ranks, index);
            }
        }
        for (uint32_t index = 0; index < roles_.size(); ++index) {
            const auto same = named.find(groups_[index].ranks);
            if (roles_[index].role == Role::kNoRole && groups_[index].complete && same != named.end()) {
                roles_[index] = {
                    roles_[same->second].role, RoleSource::kSameRanks,
                    fmt::format("it has the ranks of {}", communicator_text(run_.communicators[same->second]))};
            }
        }
    }

    bool is_free(Role role) const {
        const bool data = role == Role::kData;
        return !taken_.contains(role) &&
               !(data && (taken_.contains(Role::kDataShard) || taken_.contains(Role::kDataReplicate)));
    }

    // Two axes meet in at most one rank.
    bool crosses_all_others(const Family& family) const {
        std::map<int, size_t> group_of;
        size_t number = 0;
        for (const std::vector<int>& ranks : family.groups) {
            for (const int rank : ranks) {
                group_of[rank] = number;
            }
            ++number;
        }
        for (uint32_t index = 0; index < groups_.size(); ++index) {
            if (!row_of(roles_[index].role).has_place) {
                continue;
            }
            std::set<size_t> met;
            for (const int rank : groups_[index].ranks) {
                if (rank >= 0 && group_of.contains(rank) && !met.insert(group_of[rank]).second) {
                    return false;
                }
            }
        }
        return true;
    }

    void assign(const Family& family, Role role, const std::string& why) {
        if (!is_free(role) || !crosses_all_others(family)) {
            return;
        }
        taken_.insert(role);
        const std::string shape = family.stride == 1
                                      ? fmt::format("{} neighbouring ranks each", family.size)
                                      : fmt::format("{} ranks each, {} apart", family.size, family.stride);
        for (const uint32_t index : family.communicators) {
            roles_[index] = {role, RoleSource::kInferred, fmt::format("inferred: {}; {}", shape, why)};
        }
    }

    // A ring of two ranks is an all-to-all of two: which one it is, messages do not tell.
    void infer_by_messages(const Family& family) {
        if (family.size > 2 && family.least_targets + 1 == family.size) {
            assign(family, Role::kExpert, "each member sends to all others in them");
        } else if (!family.is_exchange()) {
            assign(family, Role::kPipeline, "sends and receives run on them");
        } else if (family.size > 2 && family.most_targets == 1) {
            assign(family, Role::kContext, "messages go around in them");
        }
    }

    void infer() {
        std::vector<const Family*> rest;
        const std::vector<Family> families = families_of(run_, groups_, roles_);
        for (const Family& family : families) {
            if (family.p2p * 2 > family.calls) {
                infer_by_messages(family);
            } else if (family.all_to_all != 0) {
                assign(family, Role::kExpert, "all_to_all runs on them");
            } else {
                rest.push_back(&family);
            }
        }
        // Frameworks number tensor parallel ranks first. Neighbours alone may as well be a node's share of the data
        // parallel ranks; neighbours beside one family that crosses them are not.
        if (rest.size() == 2 && rest[0]->stride == 1 && is_free(Role::kTensor) && is_free(Role::kData)) {
            if (sums_the_shards_of(*rest[1], *rest[0])) {
                assign(*rest[0], Role::kDataShard, "the others add up what these reduce and scatter");
                assign(*rest[1], Role::kDataReplicate, "these add up what the others reduce and scatter");
                return;
            }
            assign(*rest[0], Role::kTensor, "the other communicators cross them");
            assign(*rest[1], Role::kData, "they cross the tensor parallel ones");
        } else if (rest.size() == 1 && rest[0]->stride > 1 && taken_.contains(Role::kTensor)) {
            assign(*rest[0], Role::kData, "they cross the tensor parallel ones");
        } else if (rest.size() == 1 && rest[0]->stride == 1 && !is_free(Role::kData)) {
            assign(*rest[0], Role::kTensor, "the data parallel ones cross them");
        }
    }

    const Run& run_;
    const std::vector<Group>& groups_;
    std::vector<CommunicatorRole> roles_;
    std::set<Role> taken_;
};

}  // namespace

std::vector<Group> groups_of(const Run& run) {
    std::vector<Group> groups(run.communicators.size());
    size_t predicted = 0;
    for (size_t index = 0; index < groups.size(); ++index) {
        const Communicator& communicator = run.communicators[index];
        if (communicator.identity_guessed) {
            continue;
        }
        Group& group = groups[index];
        for (size_t rank = 0; rank < communicator.by_rank.size(); ++rank) {
            const MemberRef ref = communicator.by_rank[rank];
            int global = -1;
            if (ref.known()) {
                global = run.member(ref).global_rank;
            } else if (predicted < kMaxPredicted) {
                ++predicted;
                global = run.global_rank(communicator, static_cast<int>(rank));
            }
            group.ranks.push_back(global);
        }
        const std::vector<int>& ranks = group.ranks;
        group.complete = !ranks.empty() && std::ranges::none_of(ranks, [](int rank) { return rank < 0; });
        const int stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 0;
        const bool even = group.complete && std::ranges::adjacent_find(
                                                ranks, [&](int a, int b) { return b - a != stride; }) == ranks.end();
        group.stride = even ? stride : 0;
    }
    return groups;
}

std::vector<CommunicatorRole> roles_of(const Run& run, const std::vector<Group>& groups) {
    return RoleFinder(run, groups).find();
}

}  // namespace titan::analyzer
