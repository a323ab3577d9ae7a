#include "run.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

bool is_missing(const Run& run, int rank) {
    return std::binary_search(run.missing_ranks.begin(), run.missing_ranks.end(), rank);
}

}  // namespace

format::DumpReason reason_named(std::string_view name) {
    for (const auto& row : format::rows_of(format::DumpReason{})) {
        if (row.name == name) {
            return row.value;
        }
    }
    return {};
}

uint64_t Member::count_of(const std::vector<std::pair<int32_t, uint64_t>>& counts, int32_t peer) {
    const auto found = std::lower_bound(counts.begin(), counts.end(), std::pair<int32_t, uint64_t>(peer, 0));
    return found == counts.end() || found->first != peer ? 0 : found->second;
}

const std::string& Process::label(std::string_view key) const {
    const auto found = std::find_if(labels.begin(), labels.end(),
                                    [&](const auto& key_and_value) { return text(key_and_value.first) == key; });
    return text(found == labels.end() ? 0 : found->second);
}

const std::string& Process::role() const { return label(kRoleLabel); }

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
    const std::optional<uint32_t> place = member.call_log.find(sequence);
    if (!place) {
        return std::nullopt;
    }
    const CallSignature& signature = history[*place];
    Entry entry;
    entry.sequence = sequence;
    entry.count = signature.count;
    entry.entered_ns = history.marks_ns[*place / History::kMarkDistance];
    entry.row = signature.row;
    entry.thread = signature.thread;
    entry.site = signature.site;
    entry.shape = signature.words;
    entry.agreed = signature.agreed;
    entry.step = history.steps.at(*place);
    entry.peer = signature.peer;
    entry.graph = signature.graph;
    entry.replay = static_cast<uint32_t>(history.replays.at(*place));
    entry.place = *place;
    entry.kind = signature.kind;
    entry.datatype = signature.datatype;
    entry.reduction = signature.reduction;
    entry.state = CallState::kFinished;
    entry.device = DeviceState::kFinished;
    return entry;
}

const CallSignature* Process::signature_at(const Member& member, uint64_t sequence) const {
    const std::optional<uint32_t> place = member.call_log.find(sequence);
    return place ? &history[*place] : nullptr;
}

bool Process::has_passed_pair(uint32_t row, OpKind kind, int32_t peer, uint64_t sequence) const {
    return std::any_of(passed_pairs.begin(), passed_pairs.end(), [&](const PeerCalls& pair) {
        return pair.row == row && pair.kind == kind && pair.peer == peer && pair.first <= sequence &&
               sequence <= pair.last;
    });
}

const StepProfile* Process::profile_of(int64_t step) const {
    const auto found = std::lower_bound(steps.begin(), steps.end(), step,
                                        [](const StepProfile& one, int64_t wanted) { return one.step < wanted; });
    return found == steps.end() || found->step != step ? nullptr : &*found;
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
        // The rank on the line has a record, but never made this communicator: the missing rank is another.
        if (communicator.size - line.unknown_members >= 2 && std::binary_search(ranks.begin(), ranks.end(), rank)) {
            return -1;
        }
    }
    return line.unknown_members == 1 && missing_ranks.size() == 1 ? missing_ranks.front() : -1;
}

}  // namespace titan::analyzer
