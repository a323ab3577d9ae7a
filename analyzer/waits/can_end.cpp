// Finds calls that can have ended where nobody watched the GPU: all calls are replayed in the order of their streams,
// as if none took any time. Those that remain wait for something that never comes, wait for each other, or disagree
// with the other side.
#include "can_end.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace titan::analyzer {
namespace {

// Calls that start and end together: one call, the calls of one group, those of one graph launch.
struct Unit {
    std::vector<std::pair<uint32_t, uint32_t>> entries;  // process, index
    std::vector<uint32_t> followers;                     // units that start when this one has ended
    size_t ahead = 0;                                    // units that it follows and that have not ended
    size_t unmet = 0;                                    // entries whose other sides have not started
    bool may_start = true;
    bool may_end = true;
    bool ended = false;
};

// One call with all its sides.
using MeetingKey = std::tuple<uint32_t, uint64_t, int, int>;  // communicator, sequence, source, target
struct Meeting {
    std::vector<uint32_t> units;
    std::vector<const Entry*> entries;
    size_t started = 0;
};

using Frontier = std::map<uint64_t, uint32_t>;  // stream -> the newest unit on it that must have ended

void merge(const Frontier& from, Frontier& into) {
    for (const auto& [stream, unit] : from) {
        uint32_t& newest = into.try_emplace(stream, unit).first->second;
        newest = std::max(newest, unit);  // units are numbered in the order of the program
    }
}

class Play {
  public:
    Play(const Run& run, const std::vector<Mismatch>& mismatches, std::vector<std::vector<Progress>>& progress)
        : run_(run), progress_(progress) {
        for (uint32_t process = 0; process < run.processes.size(); ++process) {
            add_units(process);
        }
        for (const Mismatch& mismatch : mismatches) {
            if (mismatch.confidence != Confidence::kPossible && mismatch.kind != FindingKind::kRedopMismatch) {
                refused_.push_back({mismatch.communicator, mismatch.sequence, -1, -1});
            }
        }
    }

    void run() {
        for (auto& [key, meeting] : meetings_) {
            if (!can_meet(key, meeting)) {
                meeting.started = SIZE_MAX / 2;  // never complete
            }
        }
        for (uint32_t unit = 0; unit < units_.size(); ++unit) {
            if (units_[unit].ahead == 0) {
                start(unit);
            }
        }
        while (!ended_.empty()) {
            const uint32_t unit = ended_.back();
            ended_.pop_back();
            for (const uint32_t follower : units_[unit].followers) {
                if (--units_[follower].ahead == 0) {
                    start(follower);
                }
            }
        }
        for (const Unit& unit : units_) {
            for (const auto& [process, index] : unit.entries) {
                if (!unit.ended && progress_[process][index] == Progress::kUnknown) {
                    progress_[process][index] = Progress::kUnfinished;
                }
            }
        }
    }

  private:
    void add_units(uint32_t process) {
        const Process& owner = run_.processes[process];
        std::map<std::pair<uint32_t, uint32_t>, uint32_t> together;  // group, replay -> unit
        std::map<uint64_t, Frontier> streams;
        std::map<uint32_t, uint32_t> newest_of_row;
        std::vector<Frontier> records(owner.work.size());
        size_t work = 0;
        const auto hand_over = [&](int64_t until_ns) {
            for (; work < owner.work.size() && owner.work[work].entered_ns < until_ns; ++work) {
                const StreamWork& piece = owner.work[work];
                if (piece.kind == WorkKind::kEventRecord) {
                    records[work] = streams[piece.stream];
                } else if (piece.kind == WorkKind::kEventWait && !piece.satisfied && piece.record < work) {
                    merge(records[piece.record], streams[piece.stream]);
                }
            }
        };
        for (uint32_t index = 0; index < owner.entries.size(); ++index) {
            const Entry& entry = owner.entries[index];
            const Progress progress = progress_[process][index];
            if (progress == Progress::kNone) {
                continue;
            }
            hand_over(entry.entered_ns);
            Frontier& stream = streams[entry.stream];
            if (progress == Progress::kDone) {
                stream.clear();
                continue;
            }
            auto unit = static_cast<uint32_t>(units_.size());
            if (entry.group != 0 || entry.replay != 0) {
                unit = together.try_emplace({entry.group, entry.replay}, unit).first->second;
            }
            if (unit == units_.size()) {
                units_.emplace_back();
            }
            const bool collective = format::is_collective(entry.kind);
            if (collective && newest_of_row.contains(entry.row)) {
                follow(unit, newest_of_row[entry.row]);
            }
            for (const auto& [of, earlier] : stream) {
                follow(unit, earlier);
            }
            stream = {{entry.stream, unit}};
            if (collective) {
                newest_of_row[entry.row] = unit;
            }
            add_entry(unit, process, index, progress);
        }
    }

    void follow(uint32_t unit, uint32_t earlier) {
        if (unit != earlier) {
            units_[earlier].followers.push_back(unit);
            ++units_[unit].ahead;
        }
    }

    void add_entry(uint32_t index, uint32_t process, uint32_t entry_index, Progress progress) {
        const Process& owner = run_.processes[process];
        const Entry& entry = owner.entries[entry_index];
        Unit& unit = units_[index];
        unit.entries.emplace_back(process, entry_index);
        unit.may_start &= progress != Progress::kUnlaunched && entry.device != DeviceState::kNotReached;
        // Somebody watched this one.
        unit.may_end &= progress != Progress::kUnfinished;
        const uint32_t communicator = entry.row == kNoIndex ? kNoIndex : owner.members[entry.row].communicator;
        if (communicator == kNoIndex || entry.sequence == kNoSequence) {
            return;
        }
        const int self = owner.members[entry.row].rank;
        const bool send = entry.kind == OpKind::kSend;
        const MeetingKey key =
            format::is_collective(entry.kind)
                ? MeetingKey{communicator, entry.sequence, -1, -1}
                : MeetingKey{communicator, entry.sequence, send ? self : entry.peer, send ? entry.peer : self};
        Meeting& meeting = meetings_[key];
        meeting.units.push_back(index);
        meeting.entries.push_back(&entry);
        unit_meetings_[index].push_back(&meeting);
        ++unit.unmet;
    }

    // Can all sides come, and do they agree?
    bool can_meet(const MeetingKey& key, const Meeting& meeting) const {
        const auto& [index, sequence, source, target] = key;
        const Communicator& communicator = run_.communicators[index];
        if (source < 0 && target < 0) {
            return sequence < communicator.least_issued &&
                   std::find(refused_.begin(), refused_.end(), key) == refused_.end();
        }
        if (meeting.entries.size() == 2 && meeting.entries[0]->kind != meeting.entries[1]->kind) {
            const auto bytes = [](const Entry& entry) {
                return entry.count * format::datatype_size_bytes(entry.datatype);
            };
            return meeting.entries[0]->arguments_lost || meeting.entries[1]->arguments_lost ||
                   bytes(*meeting.entries[0]) == bytes(*meeting.entries[1]);
        }
        const bool has_send = meeting.entries.front()->kind == OpKind::kSend;
        return !is_missing(communicator, has_send ? target : source, has_send ? source : target, !has_send, sequence);
    }

    // Has the other side not made its call?
    bool is_missing(const Communicator& communicator, int self, int peer, bool sends, uint64_t sequence) const {
        if (self < 0 || static_cast<size_t>(self) >= communicator.by_rank.size()) {
            return false;
        }
        const MemberRef ref = communicator.by_rank[static_cast<size_t>(self)];
        if (!ref.known() || !run_.member(ref).p2p_counted) {
            return false;
        }
        const Member& member = run_.member(ref);
        return (sends ? member.sent_to(peer) : member.received_from(peer)) <= sequence;
    }

    void start(uint32_t index) {
        Unit& unit = units_[index];
        if (!unit.may_start) {
            return;
        }
        if (unit.unmet == 0) {
            end(index);
            return;
        }
        for (Meeting* meeting : unit_meetings_[index]) {
            if (++meeting->started == meeting->units.size()) {
                for (const uint32_t met : meeting->units) {
                    if (--units_[met].unmet == 0) {
                        end(met);
                    }
                }
            }
        }
    }

    void end(uint32_t index) {
        if (units_[index].may_end && !units_[index].ended) {
            units_[index].ended = true;
            ended_.push_back(index);
        }
    }

    const Run& run_;
    std::vector<std::vector<Progress>>& progress_;
    std::vector<Unit> units_;
    std::map<uint32_t, std::vector<Meeting*>> unit_meetings_;
    std::map<MeetingKey, Meeting> meetings_;
    std::vector<MeetingKey> refused_;
    std::vector<uint32_t> ended_;
};

}  // namespace

std::vector<std::vector<Progress>> progress_of_all(const Run& run, const std::vector<Mismatch>& mismatches) {
    std::vector<std::vector<Progress>> progress;
    progress.reserve(run.processes.size());
    bool unwatched = false;
    for (const Process& process : run.processes) {
        progress.push_back(local_progress(process));
        unwatched |=
            std::find(progress.back().begin(), progress.back().end(), Progress::kUnknown) != progress.back().end();
    }
    if (unwatched) {
        Play(run, mismatches, progress).run();
    }
    return progress;
}

}  // namespace titan::analyzer
