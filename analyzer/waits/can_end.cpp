// Finds calls that can have ended where nobody watched the GPU: all calls are played (play.h) as the GPUs that were
// watched let them. Those that remain wait for something that never comes, wait for each other, or disagree with the
// other side.
#include "can_end.h"

#include <algorithm>

#include "play.h"

namespace titan::analyzer {
namespace {

// Has the other side not made its call?
bool is_missing(const Run& run, const Communicator& communicator, int self, int peer, bool sends, uint64_t sequence) {
    if (self < 0 || static_cast<size_t>(self) >= communicator.by_rank.size()) {
        return false;
    }
    const MemberRef ref = communicator.by_rank[static_cast<size_t>(self)];
    return ref.known() &&
           calls_made(run, {ref, sends ? OpKind::kSend : OpKind::kRecv, peer}).value_or(UINT64_MAX) <= sequence;
}

// Can all sides come, and do they agree?
bool can_meet(const Run& run, const std::vector<MeetingKey>& refused, const Meeting& meeting) {
    const auto& [index, sequence, source, target] = meeting.key;
    const Communicator& communicator = run.communicators[index];
    if (source < 0 && target < 0) {
        return sequence < communicator.least_issued && std::ranges::find(refused, meeting.key) == refused.end();
    }
    if (meeting.entries.size() == 2 && meeting.entries[0]->kind != meeting.entries[1]->kind) {
        return pair_agrees(*meeting.entries[0], *meeting.entries[1]);
    }
    const bool has_send = meeting.entries.front()->kind == OpKind::kSend;
    return !is_missing(run, communicator, has_send ? target : source, has_send ? source : target, !has_send, sequence);
}

void note_what_cannot_end(const Run& run, const std::vector<Mismatch>& mismatches,
                          std::vector<std::vector<Progress>>& progress) {
    Score score(run, true);
    for (uint32_t process = 0; process < run.processes.size(); ++process) {
        score.add_calls(process, progress[process]);
    }
    const std::vector<MeetingKey> refused = refused_meetings(mismatches);
    for (Meeting& meeting : score.meetings) {
        meeting.is_refused = !can_meet(run, refused, meeting);
    }
    const Played played = play(score);
    for (uint32_t index = 0; index < score.units.size(); ++index) {
        const Unit& unit = score.units[index];
        for (const uint32_t entry : unit.entries) {
            if (!played.ended[index] && progress[unit.process][entry] == Progress::kUnknown) {
                progress[unit.process][entry] = Progress::kUnfinished;
            }
        }
    }
}

}  // namespace

std::vector<MeetingKey> refused_meetings(const std::vector<Mismatch>& mismatches) {
    std::vector<MeetingKey> refused;
    for (const Mismatch& mismatch : mismatches) {
        if (mismatch.never_ends()) {
            refused.push_back({mismatch.communicator, mismatch.sequence, -1, -1});
        }
    }
    return refused;
}

std::vector<std::vector<Progress>> progress_of_all(const Run& run, const std::vector<Mismatch>& mismatches) {
    std::vector<std::vector<Progress>> progress;
    progress.reserve(run.processes.size());
    bool unwatched = false;
    for (const Process& process : run.processes) {
        progress.push_back(local_progress(process));
        unwatched |= std::ranges::find(progress.back(), Progress::kUnknown) != progress.back().end();
    }
    if (unwatched) {
        note_what_cannot_end(run, mismatches, progress);
    }
    return progress;
}

}  // namespace titan::analyzer
