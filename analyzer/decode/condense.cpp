#include "condense.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "index_calls.h"
#include "stream_order.h"

namespace titan::analyzer {
namespace {

bool is_pair_call(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

class Keeper {
  public:
    Keeper(const Process& process, const CondenseLimits& limits)
        : process_(process), limits_(limits), keep_(process.entries.size(), false) {}

    const std::vector<bool>& choose() {
        keep_newest();
        keep_unfinished();
        keep_what_is_pointed_to();
        return keep_;
    }

  private:
    // One walk from the newest to the oldest, with a count for each thing of which a few are kept.
    void keep_newest() {
        std::unordered_map<uint64_t, size_t> of_member;  // those that ran, and the others
        std::unordered_map<uint64_t, size_t> of_stream;
        std::map<std::tuple<uint32_t, OpKind, int32_t>, size_t> of_pair;
        std::unordered_map<uint64_t, size_t> finished_on_stream;
        size_t captured = 0;
        size_t failed = 0;
        size_t replayed = 0;
        for (size_t i = keep_.size(); i-- > 0;) {
            const Entry& entry = process_.entries[i];
            bool keep = keep_.size() - i <= limits_.newest;
            const bool ran = entry.sequence != kNoSequence && format::is_collective(entry.kind);
            keep |= of_member[uint64_t{entry.row} << 1 | (ran ? 1 : 0)]++ < limits_.newest_of_member;
            keep |= of_stream[entry.stream]++ < limits_.newest_of_stream;
            keep |= entry.state == CallState::kFinished && finished_on_stream[entry.stream]++ == 0;
            keep |= is_pair_call(entry.kind) && of_pair[{entry.row, entry.kind, entry.peer}]++ < limits_.newest_of_pair;
            keep |= entry.captured && captured++ < limits_.captured;
            keep |= entry.state == CallState::kFailed && failed++ < limits_.failed;
            keep |= entry.replay != 0 && replayed++ == 0;
            keep_[i] = keep_[i] || keep;
        }
    }

    // Keeps calls that are not known to be done, and the calls right after each: they show who went past it.
    void keep_unfinished() {
        const std::vector<Progress> progress = local_progress(process_);
        std::vector<size_t> open;
        std::unordered_map<uint32_t, size_t> unwatched;
        for (size_t i = progress.size(); i-- > 0;) {
            const DeviceState device = process_.entries[i].device;
            const bool started = device == DeviceState::kStarted || device == DeviceState::kGraphStarted;
            const bool unknown =
                progress[i] == Progress::kUnknown && unwatched[process_.entries[i].row]++ < limits_.unwatched_of_member;
            if (started || unknown || progress[i] == Progress::kUnfinished || progress[i] == Progress::kUnlaunched) {
                open.push_back(i);
            }
        }
        const size_t half = limits_.unfinished / 2;
        size_t followed_from = keep_.size();
        for (size_t n = 0; n < open.size(); ++n) {
            if (n >= half && n + half < open.size()) {
                continue;
            }
            const size_t end = std::min(open[n] + 1 + limits_.following, followed_from);
            std::fill(keep_.begin() + static_cast<std::ptrdiff_t>(open[n]),
                      keep_.begin() + static_cast<std::ptrdiff_t>(std::max(end, open[n])), true);
            keep_[open[n]] = true;
            followed_from = open[n];
        }
    }

    void keep_what_is_pointed_to() {
        const auto keep = [&](const Entry* entry) {
            if (entry != nullptr) {
                keep_[static_cast<size_t>(entry - process_.entries.data())] = true;
            }
        };
        for (const ThreadState& thread : process_.threads) {
            keep(thread.ticket == 0 ? nullptr : process_.entry_of_ticket(thread.ticket - 1));
        }
        for (const ChannelWork& work : process_.channels) {
            keep(work.entry < keep_.size() ? &process_.entries[work.entry] : nullptr);
        }
        for (const ChannelCounts& counts : process_.channel_counts) {
            keep(counts.entry < keep_.size() ? &process_.entries[counts.entry] : nullptr);
        }
    }

    const Process& process_;
    const CondenseLimits& limits_;
    std::vector<bool> keep_;
};

void note_passed_pairs(Process& process, const std::vector<bool>& keep) {
    std::map<std::tuple<uint32_t, OpKind, int32_t>, PeerCalls> passed;
    for (size_t i = 0; i < keep.size(); ++i) {
        const Entry& entry = process.entries[i];
        if (keep[i] || !is_pair_call(entry.kind) || entry.sequence == kNoSequence || entry.captured) {
            continue;
        }
        const auto [found, inserted] = passed.try_emplace({entry.row, entry.kind, entry.peer});
        PeerCalls& calls = found->second;
        if (inserted) {
            calls = {entry.row, entry.kind, entry.peer, entry.sequence, entry.sequence};
        }
        calls.first = std::min(calls.first, entry.sequence);
        calls.last = std::max(calls.last, entry.sequence);
    }
    for (const auto& [key, calls] : passed) {
        process.passed_pairs.push_back(calls);
    }
}

// New places of the kept entries; the others' are kNoIndex.
std::vector<uint32_t> drop_others(Process& process, const std::vector<bool>& keep) {
    std::vector<uint32_t> place(keep.size(), kNoIndex);
    std::vector<Entry> kept;
    std::vector<uint64_t> tickets;
    const auto count = static_cast<size_t>(std::count(keep.begin(), keep.end(), true));
    kept.reserve(count);
    tickets.reserve(count);
    for (size_t i = 0; i < keep.size(); ++i) {
        if (keep[i]) {
            place[i] = static_cast<uint32_t>(kept.size());
            tickets.push_back(process.tickets.empty() ? process.first_ticket + i : process.tickets[i]);
            kept.push_back(process.entries[i]);
        }
    }
    process.entries = std::move(kept);
    process.first_ticket = tickets.empty() ? process.first_ticket : tickets.front();
    const bool dense = tickets.empty() || tickets.back() - tickets.front() + 1 == tickets.size();
    process.tickets = dense ? std::vector<uint64_t>() : std::move(tickets);
    return place;
}

}  // namespace

void condense(Process& process, const CondenseLimits& limits) {
    if (process.condensed) {
        return;
    }
    process.condensed = true;
    const std::vector<bool> keep = Keeper(process, limits).choose();
    if (std::find(keep.begin(), keep.end(), false) == keep.end()) {
        return;
    }
    note_passed_pairs(process, keep);
    const std::vector<uint32_t> place = drop_others(process, keep);
    for (ChannelWork& work : process.channels) {
        work.entry = work.entry < place.size() ? place[work.entry] : kNoIndex;
    }
    for (ChannelCounts& counts : process.channel_counts) {
        counts.entry = counts.entry < place.size() ? place[counts.entry] : kNoIndex;
    }
    index_entries(process);
}

}  // namespace titan::analyzer
