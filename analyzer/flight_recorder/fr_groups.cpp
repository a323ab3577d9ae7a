#include "fr_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/fr/fr_dump.h"
#include "host/words.h"
#include "made_texts.h"

namespace titan::analyzer {
namespace {

// Members of a process group whose ranks no file names: the ranks that used it, and all ranks for the default group.
void settle_unknown_groups(Run& run, std::unordered_map<uint64_t, std::vector<int32_t>>& ranks) {
    struct Group {
        std::set<int32_t> ranks;
        bool is_default = false;
        Member pattern;
        std::string name;
    };
    std::map<uint64_t, Group> groups;
    int32_t newest_rank = -1;
    for (const Process& process : run.processes) {
        if (!process.source.is_flight_recorder) {
            continue;
        }
        newest_rank = std::max(newest_rank, process.rank);
        for (const Member& member : process.members) {
            if (member.identity_guessed) {
                Group& group = groups[member.id];
                group.ranks.insert(process.rank);
                group.name = process.text(member.name);
                group.is_default = group.name == "default_pg";
            }
        }
    }
    for (auto& [id, group] : groups) {
        if (group.is_default) {
            for (int32_t rank = 0; rank <= newest_rank; ++rank) {
                group.ranks.insert(rank);
            }
        }
        ranks[id] = {group.ranks.begin(), group.ranks.end()};
    }
    for (Process& process : run.processes) {
        for (Member& member : process.members) {
            const auto group =
                process.source.is_flight_recorder && member.identity_guessed ? groups.find(member.id) : groups.end();
            if (group == groups.end()) {
                continue;
            }
            const std::vector<int32_t>& members = ranks[member.id];
            member.size = static_cast<int32_t>(members.size());
            member.rank =
                static_cast<int32_t>(std::lower_bound(members.begin(), members.end(), process.rank) - members.begin());
            member.identity_guessed = !group->second.is_default;
        }
    }
}

// A process registers a group when it first uses it. Others say that it is a member.
void add_unused_memberships(Run& run, const std::unordered_map<uint64_t, std::vector<int32_t>>& ranks) {
    std::map<int32_t, Process*> by_rank;
    std::unordered_map<uint64_t, std::pair<Member, std::string>> patterns;
    for (Process& process : run.processes) {
        if (!process.source.is_flight_recorder) {
            continue;
        }
        by_rank.try_emplace(process.rank, &process);
        for (const Member& member : process.members) {
            if (!patterns.contains(member.id)) {
                Member pattern;
                pattern.id = member.id;
                pattern.size = member.size;
                pattern.state = member.state;
                pattern.origin = member.origin;
                pattern.identity_guessed = member.identity_guessed;
                pattern.issued = pattern.finished = 1;
                patterns.emplace(member.id, std::pair(pattern, process.text(member.name)));
            }
        }
    }
    for (const auto& [id, pattern] : patterns) {
        const auto members = ranks.find(id);
        for (size_t i = 0; members != ranks.end() && i < members->second.size(); ++i) {
            const auto found = by_rank.find(members->second[i]);
            if (found == by_rank.end()) {
                continue;
            }
            Process& process = *found->second;
            if (std::any_of(process.members.begin(), process.members.end(),
                            [&](const Member& member) { return member.id == id; })) {
                continue;
            }
            Member member = pattern.first;
            member.rank = static_cast<int32_t>(i);
            member.p2p_counted = process.overwritten == 0;
            member.name = MadeTexts(process.texts).add(pattern.second);
            process.members.push_back(std::move(member));
        }
    }
}

struct Side {
    Process* process = nullptr;
    std::vector<uint32_t> calls;  // entries, oldest first

    const Entry& call(size_t i) const { return process->entries[calls[i]]; }
    size_t finished() const {
        size_t count = calls.size();
        while (count > 0 && call(count - 1).state != CallState::kFinished) {
            --count;
        }
        return count;
    }
};

struct Alignment {
    int64_t shift = 0;     // number of the receiver's calls before the sender's first
    bool guessed = false;  // others fit as well
};

// Both sides have finished the same number of calls, give or take one that a side has not noticed; sizes decide between
// the candidates.
Alignment align(const Side& sends, const Side& receives) {
    constexpr int64_t kSlack = 2;
    const int64_t middle = static_cast<int64_t>(receives.finished()) - static_cast<int64_t>(sends.finished());
    int64_t best = middle;
    size_t best_equal = 0;
    size_t fitting = 0;
    bool middle_fits = false;
    for (const int64_t offset : {int64_t{0}, int64_t{-1}, int64_t{1}, -kSlack, kSlack}) {
        const int64_t shift = middle + offset;
        size_t equal = 0;
        size_t compared = 0;
        for (size_t i = 0; i < sends.calls.size(); ++i) {
            const int64_t other = static_cast<int64_t>(i) + shift;
            if (other < 0 || other >= static_cast<int64_t>(receives.calls.size())) {
                continue;
            }
            const Entry& send = sends.call(i);
            const Entry& receive = receives.call(static_cast<size_t>(other));
            // Two that both hang may be the ones that differ in size, and hang because of it.
            if (send.state == CallState::kFinished || receive.state == CallState::kFinished) {
                ++compared;
                equal += send.count == receive.count ? 1 : 0;
            }
        }
        // A candidate must be better by size than the likeliest one, not only longer or shorter.
        const bool fits = equal == compared;
        fitting += fits ? 1 : 0;
        middle_fits |= offset == 0 && fits;
        if (!middle_fits && fits && equal > best_equal) {
            best = shift;
            best_equal = equal;
        }
    }
    return {best, fitting != 1};
}

// The n-th send of a pair is counted from the oldest one that is recorded. Where older ones are overwritten, both sides
// are laid side by side again.
void align_pairs(Run& run) {
    struct Pair {
        Side sends, receives;
        bool lost = false;
    };
    std::map<std::tuple<uint64_t, int32_t, int32_t>, Pair> pairs;
    const bool any_lost = std::any_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
        return process.source.is_flight_recorder && process.overwritten != 0;
    });
    for (Process& process : run.processes) {
        for (uint32_t i = 0; any_lost && process.source.is_flight_recorder && i < process.entries.size(); ++i) {
            const Entry& entry = process.entries[i];
            const bool send = entry.kind == OpKind::kSend;
            if ((!send && entry.kind != OpKind::kRecv) || entry.peer < 0 || entry.sequence == kNoSequence) {
                continue;
            }
            const Member& member = process.members[entry.row];
            Pair& pair = pairs[{member.id, send ? member.rank : entry.peer, send ? entry.peer : member.rank}];
            Side& side = send ? pair.sends : pair.receives;
            side.process = &process;
            side.calls.push_back(i);
            pair.lost |= process.overwritten != 0;
        }
    }
    for (auto& [key, pair] : pairs) {
        if (!pair.lost || pair.sends.process == nullptr || pair.receives.process == nullptr) {
            continue;
        }
        const Alignment alignment = align(pair.sends, pair.receives);
        const auto number = [&](Side& side, int64_t from) {
            for (const uint32_t call : side.calls) {
                Entry& entry = side.process->entries[call];
                entry.sequence = static_cast<uint64_t>(from++);
                entry.number_guessed = alignment.guessed;
            }
        };
        number(pair.sends, std::max<int64_t>(alignment.shift, 0));
        number(pair.receives, std::max<int64_t>(-alignment.shift, 0));
    }
}

void warn_of_newer_versions(Run& run) {
    std::vector<int> ranks;
    int newest = 0;
    for (const Process& process : run.processes) {
        if (process.source.recorder_minor > format::fr::kNewestMinor) {
            ranks.push_back(process.rank);
            newest = std::max(newest, process.source.recorder_minor);
        }
    }
    if (!ranks.empty()) {
        run.warnings.push_back({WarningKind::kFlightRecorder, ranks,
                                fmt::format("Flight Recorder dumps of {} are of version 2.{}, newer than the 2.{} that "
                                            "is known: what it adds is left out",
                                            ranks_text(ranks), newest, format::fr::kNewestMinor)});
    }
}

}  // namespace

void GroupRanks::add(uint64_t id, const std::vector<int32_t>& ranks) {
    const std::lock_guard lock(mutex_);
    ranks_.try_emplace(id, ranks);
}

std::unordered_map<uint64_t, std::vector<int32_t>> GroupRanks::take() {
    const std::lock_guard lock(mutex_);
    return std::move(ranks_);
}

void complete_flight_recorder(Run& run, GroupRanks& groups) {
    std::unordered_map<uint64_t, std::vector<int32_t>> ranks = groups.take();
    settle_unknown_groups(run, ranks);
    add_unused_memberships(run, ranks);
    align_pairs(run);
    compare_moments(run);
    int32_t world = -1;
    for (const auto& [id, members] : ranks) {
        for (const int32_t rank : members) {
            world = std::max(world, rank + 1);
        }
    }
    for (Process& process : run.processes) {
        if (process.source.is_flight_recorder && process.world_size < 0) {
            process.world_size = std::max(world, process.rank + 1);
        }
    }
    run.ranks_of = std::move(ranks);
}

void warn_of_what_it_hides(Run& run) {
    std::vector<int> ranks;
    for (const Process& process : run.processes) {
        if (process.source.is_flight_recorder) {
            ranks.push_back(process.rank);
        }
    }
    if (ranks.empty()) {
        return;
    }
    const bool by_file = std::any_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
        return process.source.is_flight_recorder && process.moment != Moment::kRecorded;
    });
    run.warnings.push_back(
        {WarningKind::kFlightRecorder, ranks,
         fmt::format("Flight Recorder dumps of {} hold calls and how far PyTorch saw them get, but not what the hosts "
                     "do, nor streams, roots, reductions, CUDA graphs{}",
                     ranks_text(ranks), by_file ? ". The time of the file is taken as the moment of the dump" : "")});
    warn_of_newer_versions(run);
}

}  // namespace titan::analyzer
