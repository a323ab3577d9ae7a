#include "analyzer/run.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "analyzer/ends.h"
#include "analyzer/layout.h"

namespace titan::analyzer {
namespace {

// Sizes are read from files: larger ones are damage, not jobs.
constexpr int32_t kMaxRanks = 1 << 20;

// Ids of communicators, joined where grow gave one communicator two of them.
class IdUnion {
  public:
    uint64_t find(uint64_t id) {
        uint64_t root = id;
        for (auto it = parent_.find(root); it != parent_.end() && it->second != root; it = parent_.find(root)) {
            root = it->second;
        }
        parent_[id] = root;
        return root;
    }
    void join(uint64_t left, uint64_t right) {
        const uint64_t a = find(left);
        const uint64_t b = find(right);
        parent_[std::max(a, b)] = std::min(a, b);
    }

  private:
    std::unordered_map<uint64_t, uint64_t> parent_;
};

void add_member(Run& run, uint32_t index, MemberRef ref) {
    Communicator& communicator = run.communicators[index];
    Member& member = run.processes[ref.process].members[ref.row];
    member.communicator = index;
    communicator.members.push_back(ref);
    communicator.least_issued = std::min(communicator.least_issued, member.issued);
    if (member.size > communicator.size && member.size <= kMaxRanks) {
        communicator.size = member.size;
    }
    if (communicator.name.empty()) {
        communicator.name = run.processes[ref.process].text(member.name);
    }
    communicator.identity_guessed |= member.identity_guessed;
}

void build_communicators(Run& run) {
    IdUnion ids;
    for (const Process& process : run.processes) {
        for (const Member& member : process.members) {
            if (member.alias_id != 0) {
                ids.join(member.id, member.alias_id);
            }
        }
    }
    for (uint32_t p = 0; p < run.processes.size(); ++p) {
        auto& members = run.processes[p].members;
        for (uint32_t row = 0; row < members.size(); ++row) {
            if (members[row].id == 0) {
                continue;
            }
            const uint64_t id = ids.find(members[row].id);
            auto [found, fresh] = run.communicator_index.try_emplace(id, run.communicators.size());
            if (fresh) {
                Communicator communicator;
                communicator.id = members[row].id;
                communicator.parent_id = members[row].parent_id;
                communicator.ordinal = members[row].ordinal;
                communicator.origin = members[row].origin;
                run.communicators.push_back(std::move(communicator));
            }
            run.communicator_index.try_emplace(members[row].id, found->second);
            add_member(run, found->second, {p, row});
        }
    }
}

// The rank of a process that holds several members of a communicator is not the rank of each of them: the communicator of
// ncclCommInitAll numbers them, and other communicators follow by device.
void set_global_ranks(Run& run) {
    for (Process& process : run.processes) {
        std::map<uint64_t, int> rows_of_id;
        uint64_t shared_id = 0;
        for (const Member& member : process.members) {
            if (++rows_of_id[member.id] > 1) {
                shared_id = shared_id == 0 ? member.id : shared_id;
            }
        }
        std::map<int32_t, int32_t> rank_of_device;
        for (const Member& member : process.members) {
            if (shared_id != 0 && member.id == shared_id) {
                rank_of_device.emplace(member.device, member.rank);
            }
        }
        for (Member& member : process.members) {
            const auto by_device = rank_of_device.find(member.device);
            member.global_rank = shared_id == 0                      ? process.rank
                                 : member.id == shared_id            ? member.rank
                                 : by_device == rank_of_device.end() ? process.rank
                                                                     : by_device->second;
        }
    }
}

void order_members(Run& run) {
    for (Communicator& communicator : run.communicators) {
        std::sort(communicator.members.begin(), communicator.members.end(), [&](MemberRef a, MemberRef b) {
            const Member& left = run.member(a);
            const Member& right = run.member(b);
            return std::tie(left.rank, a.process, a.row) < std::tie(right.rank, b.process, b.row);
        });
        if (communicator.size > 0) {
            communicator.by_rank.resize(static_cast<size_t>(communicator.size));
            for (MemberRef ref : communicator.members) {
                const int32_t rank = run.member(ref).rank;
                if (rank >= 0 && rank < communicator.size) {
                    communicator.by_rank[static_cast<size_t>(rank)] = ref;
                }
            }
        }
    }
}

void find_missing_ranks(Run& run) {
    std::set<int> present;
    std::map<int32_t, int> votes;
    std::set<std::string> hosts;
    for (const Process& process : run.processes) {
        if (process.rank >= 0) {
            present.insert(process.rank);
        }
        for (const Member& member : process.members) {
            if (member.global_rank >= 0 && member.global_rank < kMaxRanks) {
                present.insert(member.global_rank);
            }
        }
        if (process.world_size > 0 && process.world_size <= kMaxRanks) {
            ++votes[process.world_size];
        }
        if (!process.host.empty()) {
            hosts.insert(process.host);
        }
        run.partial_recording |= process.partial_recording;
    }
    const auto most =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    run.world_size = most == votes.end() ? -1 : most->first;
    if (run.world_size < 0) {
        for (const Communicator& communicator : run.communicators) {
            run.world_size = std::max(run.world_size, communicator.size);
        }
    }
    run.ranks.assign(present.begin(), present.end());
    for (int rank = 0; rank < run.world_size; ++rank) {
        if (!present.contains(rank)) {
            run.missing_ranks.push_back(rank);
        }
    }
    run.hosts.assign(hosts.begin(), hosts.end());
}

// Two known members give the line; it must fit all of them. Of the world one is enough.
RankLine fit_line(const Run& run, const Communicator& communicator) {
    RankLine line;
    bool fits = communicator.size == run.world_size;
    for (int rank = 0; rank < static_cast<int>(communicator.by_rank.size()); ++rank) {
        const MemberRef known = communicator.by_rank[static_cast<size_t>(rank)];
        line.unknown_members += known.known() ? 0 : 1;
        const int global = known.known() ? run.member(known).global_rank : -1;
        if (global < 0) {
            continue;
        }
        if (line.first < 0) {
            line.first = rank;
            line.base = global;
            continue;
        }
        if (line.at(rank) != global && !line.crooked) {
            const int64_t rise = int64_t{global} - line.base;
            line.crooked = fits || rise % (rank - line.first) != 0;
            line.slope = line.crooked ? line.slope : rise / (rank - line.first);
        }
        fits = true;
    }
    line.fits = line.first >= 0 && fits && !line.crooked;
    return line;
}

bool is_missing(const Run& run, int rank) {
    return std::binary_search(run.missing_ranks.begin(), run.missing_ranks.end(), rank);
}

}  // namespace

uint64_t Member::count_of(const std::vector<std::pair<int32_t, uint64_t>>& counts, int32_t peer) {
    const auto found = std::lower_bound(counts.begin(), counts.end(), std::pair<int32_t, uint64_t>(peer, 0));
    return found == counts.end() || found->first != peer ? 0 : found->second;
}

const Entry* Process::entry_of_ticket(uint64_t ticket) const {
    if (!tickets.empty()) {
        const auto found = std::lower_bound(tickets.begin(), tickets.end(), ticket);
        return found == tickets.end() || *found != ticket ? nullptr
                                                          : &entries[static_cast<size_t>(found - tickets.begin())];
    }
    return ticket < first_ticket || ticket - first_ticket >= entries.size() ? nullptr : &entries[ticket - first_ticket];
}

const Entry* Process::call_at(const Member& member, uint64_t sequence) const {
    const auto& calls = member.calls;
    if (calls.empty() || sequence < entries[calls.front()].sequence) {
        return nullptr;
    }
    // Nearly always dense; torn slots leave gaps.
    const uint64_t guess = sequence - entries[calls.front()].sequence;
    if (guess < calls.size() && entries[calls[guess]].sequence == sequence) {
        return &entries[calls[guess]];
    }
    const auto found = std::lower_bound(calls.begin(), calls.end(), sequence, [&](uint32_t call, uint64_t wanted) {
        return entries[call].sequence < wanted;
    });
    return found == calls.end() || entries[*found].sequence != sequence ? nullptr : &entries[*found];
}

std::optional<Entry> Process::recall(const Member& member, uint64_t sequence) const {
    if (const Entry* kept = call_at(member, sequence)) {
        return *kept;
    }
    const std::optional<uint32_t> place = member.past.find(sequence);
    if (!place) {
        return std::nullopt;
    }
    const CallShape& shape = history[*place];
    Entry entry;
    entry.sequence = sequence;
    entry.count = shape.count;
    entry.entered_ns = history.marks_ns[*place / History::kMarkDistance];
    entry.row = shape.row;
    entry.thread = shape.thread;
    entry.site = shape.site;
    entry.shape = shape.words;
    entry.agreed = shape.agreed;
    entry.step = history.steps.at(*place);
    entry.peer = shape.peer;
    entry.graph = shape.graph;
    entry.replay = static_cast<uint32_t>(history.replays.at(*place));
    entry.place = *place;
    entry.kind = shape.kind;
    entry.datatype = shape.datatype;
    entry.reduction = shape.reduction;
    entry.state = CallState::kFinished;
    entry.device = DeviceState::kFinished;
    return entry;
}

const CallShape* Process::shape_at(const Member& member, uint64_t sequence) const {
    const std::optional<uint32_t> place = member.past.find(sequence);
    return place ? &history[*place] : nullptr;
}

bool Process::has_passed_pair(uint32_t row, OpKind kind, int32_t peer, uint64_t sequence) const {
    return std::any_of(passed_pairs.begin(), passed_pairs.end(), [&](const PeerCalls& pair) {
        return pair.row == row && pair.kind == kind && pair.peer == peer && pair.first <= sequence &&
               sequence <= pair.last;
    });
}

int64_t Process::last_activity_ns() const {
    int64_t newest = 0;
    for (const ThreadState& thread : threads) {
        newest = std::max({newest, thread.last_call_ns, thread.call != 0 ? thread.entered_ns : 0});
    }
    if (!entries.empty()) {
        newest = std::max({newest, entries.back().entered_ns, entries.back().returned_ns});
    }
    return newest;
}

std::optional<uint32_t> Run::find_communicator(uint64_t wanted) const {
    const auto found = communicator_index.find(wanted);
    return found == communicator_index.end() ? std::nullopt : std::optional(found->second);
}

int Run::global_rank(const Communicator& communicator, int comm_rank) const {
    if (comm_rank < 0 || static_cast<size_t>(comm_rank) >= communicator.by_rank.size()) {
        return -1;
    }
    const MemberRef ref = communicator.by_rank[static_cast<size_t>(comm_rank)];
    if (ref.known()) {
        return member(ref).global_rank;
    }
    if (const auto listed = ranks_of.find(communicator.id);
        listed != ranks_of.end() && static_cast<size_t>(comm_rank) < listed->second.size()) {
        return listed->second[static_cast<size_t>(comm_rank)];
    }
    const RankLine& line = communicator.rank_line;
    if (line.fits) {
        const int64_t predicted = line.at(comm_rank);
        const int rank = predicted < 0 || predicted >= kMaxRanks ? -1 : static_cast<int>(predicted);
        if (is_missing(*this, rank)) {
            return rank;
        }
        // On the line is a rank with a record, that never made this communicator: the missing one is somebody else.
        if (communicator.size - line.unknown_members >= 2 && std::binary_search(ranks.begin(), ranks.end(), rank)) {
            return -1;
        }
    }
    return line.unknown_members == 1 && missing_ranks.size() == 1 ? missing_ranks.front() : -1;
}

void link(Run& run) {
    std::stable_sort(run.processes.begin(), run.processes.end(), [](const Process& a, const Process& b) {
        return std::tie(a.rank, a.pid) < std::tie(b.rank, b.pid);
    });
    run.communicators.clear();
    run.communicator_index.clear();
    run.missing_ranks.clear();
    build_communicators(run);
    set_global_ranks(run);
    order_members(run);
    find_missing_ranks(run);
    for (Communicator& communicator : run.communicators) {
        communicator.rank_line = fit_line(run, communicator);
    }
    run.layout = std::make_shared<const Layout>(layout_of(run));
    judge_ends(run);
}

}  // namespace titan::analyzer
