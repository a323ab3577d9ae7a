#include "link_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "call_order.h"
#include "ends.h"
#include "host_calls.h"
#include "layout.h"

namespace titan::analyzer {
namespace {

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
            auto [found, inserted] = run.communicator_index.try_emplace(id, run.communicators.size());
            if (inserted) {
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

// The rank of a process that holds several members of a communicator is not the rank of each of them: the communicator
// of ncclCommInitAll numbers them, and other communicators follow by device.
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
    // A launcher counts processes. Where one of them is several ranks, the ranks are more.
    const bool is_several = std::any_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
        return std::any_of(process.members.begin(), process.members.end(), [&](const Member& member) {
            return member.global_rank >= 0 && member.global_rank != process.rank;
        });
    });
    if (run.world_size < 0 || is_several) {
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

// Of a communicator whose known members are one, the line is that of its like, if those agree: every dp group of a job
// has the same stride.
void borrow_slopes(Run& run) {
    std::map<std::tuple<int32_t, std::string_view>, std::optional<int64_t>>
        slopes;  // by size and role; none: they differ
    const auto key_of = [](const Communicator& one) { return std::tuple(one.size, role_in(one.name)); };
    const auto known_members = [](const Communicator& one) { return one.size - one.rank_line.unknown_members; };
    for (const Communicator& one : run.communicators) {
        if (one.rank_line.fits && known_members(one) >= 2) {
            const auto [found, is_first] = slopes.try_emplace(key_of(one), one.rank_line.slope);
            found->second = is_first || found->second == one.rank_line.slope ? found->second : std::nullopt;
        }
    }
    for (Communicator& one : run.communicators) {
        const auto like = slopes.find(key_of(one));
        if (known_members(one) == 1 && one.rank_line.first >= 0 && !one.rank_line.fits && !role_in(one.name).empty() &&
            like != slopes.end() && like->second) {
            one.rank_line.slope = *like->second;
            one.rank_line.fits = true;
        }
    }
}

bool shows_starts(const Run& run) {
    return std::any_of(run.processes.begin(), run.processes.end(),
                       [](const Process& process) { return process.starts_seen && !process.starts_with_ends; });
}

// The GPU of a rank may be stuck before its first call: then only the other ranks show that starts are noted. Once
// calls are overwritten, none that is left is the first.
void note_unreached_first_calls(Run& run) {
    for (Process& process : run.processes) {
        const bool polled = process.gpu_method == format::GpuProgressMethod::kEvents ||
                            process.gpu_method == format::GpuProgressMethod::kTiming;
        if (!polled || process.overwritten != 0 || process.starts_seen || process.source.is_flight_recorder) {
            continue;
        }
        for (Entry& entry : process.entries) {
            if (!entry.captured && entry.state == CallState::kPending && entry.device == DeviceState::kUnknown) {
                entry.device = DeviceState::kNotReached;
            }
        }
    }
}

// nccl2 (the "nccl" of PyTorch 2.15) notes the start of a call when it sees its end, and never before: a call without a
// start may have started. One rank's calls may be so short that a look finds both; where no rank of the run shows a
// start by itself, it is nccl2.
void forget_starts_noted_with_ends(Run& run) {
    for (Process& process : run.processes) {
        process.starts_seen = false;
        for (Entry& entry : process.entries) {
            if (process.starts_with_ends && entry.device == DeviceState::kNotReached) {
                entry.device = DeviceState::kUnknown;
            }
        }
    }
}

// --- Calls that were taken for done and cannot be: some member has not made its side.

// Has the thread that made the call waited for the GPU ever since?
bool still_waits(const Process& process, const Entry& entry) {
    return std::any_of(process.threads.begin(), process.threads.end(), [&](const ThreadState& thread) {
        return thread.thread == entry.thread && thread.call != 0 && thread.entered_ns >= entry.entered_ns &&
               HostCall(process.text(thread.call)).waits_for_gpu();
    });
}

// Has the other side of a send or receive not been called?
bool lacks_its_half(const Run& run, const Communicator& communicator, const Member& member, const Entry& entry) {
    const bool known = entry.peer >= 0 && static_cast<size_t>(entry.peer) < communicator.by_rank.size() &&
                       communicator.by_rank[static_cast<size_t>(entry.peer)].known();
    if (!known) {
        return false;
    }
    const Member& other = run.member(communicator.by_rank[static_cast<size_t>(entry.peer)]);
    const uint64_t made = entry.kind == OpKind::kSend ? other.received_from(member.rank) : other.sent_to(member.rank);
    return other.p2p_counted && made <= entry.sequence;
}

bool lacks_a_side(const Run& run, const Process& process, const Entry& entry) {
    if (entry.row == kNoIndex || entry.sequence == kNoSequence || process.members[entry.row].communicator == kNoIndex) {
        return false;
    }
    const Member& member = process.members[entry.row];
    const Communicator& communicator = run.communicators[member.communicator];
    if (format::is_collective(entry.kind)) {
        return entry.sequence >= communicator.least_issued;
    }
    return (entry.kind == OpKind::kSend || entry.kind == OpKind::kRecv) &&
           lacks_its_half(run, communicator, member, entry);
}

// Where nobody watched the GPU, a synchronisation that returned tells that earlier calls are done. It was another
// device's, or of another context, where the thread that made such a call still waits for the GPU and a member has not
// come: then nothing is known of the call. Members must be in order.
void forget_unmet_ends(Run& run) {
    for (Process& process : run.processes) {
        if (process.gpu_progress || process.sees.by_watchdog) {
            continue;  // somebody saw them end
        }
        for (Entry& entry : process.entries) {
            if (entry.state == CallState::kFinished && entry.replay == 0 && lacks_a_side(run, process, entry) &&
                still_waits(process, entry)) {
                entry.state = CallState::kEnqueued;
                entry.device = DeviceState::kUnknown;
            }
        }
    }
}

}  // namespace

void link(Run& run) {
    if (shows_starts(run)) {
        note_unreached_first_calls(run);
    } else {
        forget_starts_noted_with_ends(run);
    }
    std::stable_sort(run.processes.begin(), run.processes.end(), [](const Process& a, const Process& b) {
        return std::tie(a.rank, a.pid) < std::tie(b.rank, b.pid);
    });
    run.communicators.clear();
    run.communicator_index.clear();
    run.missing_ranks.clear();
    build_communicators(run);
    set_global_ranks(run);
    order_members(run);
    forget_unmet_ends(run);
    find_missing_ranks(run);
    for (Communicator& communicator : run.communicators) {
        communicator.rank_line = fit_line(run, communicator);
    }
    borrow_slopes(run);
    run.layout = std::make_shared<const Layout>(layout_of(run));
    judge_ends(run);
}

}  // namespace titan::analyzer
