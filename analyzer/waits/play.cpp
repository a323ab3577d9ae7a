#include "play.h"

#include <algorithm>
#include <map>

namespace titan::analyzer {
namespace {

using Frontier = std::map<uint64_t, uint32_t>;  // stream -> the newest unit on it that must have ended

void merge(const Frontier& from, Frontier& into) {
    for (const auto& [stream, unit] : from) {
        uint32_t& newest = into.try_emplace(stream, unit).first->second;
        newest = std::max(newest, unit);  // units are numbered in the order of the program
    }
}

size_t count_below(const std::vector<uint64_t>& sorted, uint64_t number) {
    return static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin());
}

void insert_sorted(std::vector<uint64_t>& sorted, uint64_t number) {
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), number), number);
}

class Player {
  public:
    explicit Player(const Score& score) : score_(score), started_at_(score.meetings.size(), 0) {
        for (const Unit& unit : score.units) {
            ahead_.push_back(unit.ahead);
            unmet_.push_back(unit.meetings.size());
        }
        played_.started.resize(score.units.size(), false);
        played_.met.resize(score.units.size(), false);
        played_.ended.resize(score.units.size(), false);
    }

    Played run() {
        for (uint32_t unit = 0; unit < score_.units.size(); ++unit) {
            if (score_.units[unit].ahead == 0) {
                start(unit);
            }
        }
        while (!ended_.empty()) {
            const uint32_t unit = ended_.back();
            ended_.pop_back();
            for (const uint32_t follower : score_.units[unit].followers) {
                if (--ahead_[follower] == 0) {
                    start(follower);
                }
            }
        }
        return std::move(played_);
    }

  private:
    void start(uint32_t index) {
        const Unit& unit = score_.units[index];
        if (!unit.may_start) {
            return;
        }
        played_.started[index] = true;
        if (unit.meetings.empty()) {
            meet(index);
            return;
        }
        for (const uint32_t at : unit.meetings) {
            const Meeting& meeting = score_.meetings[at];
            if (++started_at_[at] == meeting.units.size() && !meeting.is_refused) {
                for (const uint32_t met : meeting.units) {
                    if (--unmet_[met] == 0) {
                        meet(met);
                    }
                }
            }
        }
    }

    void meet(uint32_t index) {
        played_.met[index] = true;
        if (score_.units[index].may_end) {
            played_.ended[index] = true;
            ended_.push_back(index);
        }
    }

    const Score& score_;
    Played played_;
    std::vector<size_t> started_at_;  // index: meeting
    std::vector<size_t> ahead_;       // index: unit, and so of the next
    std::vector<size_t> unmet_;
    std::vector<uint32_t> ended_;
};

}  // namespace

MemberRef member_of_rank(const Run& run, uint32_t communicator, int rank) {
    for (const MemberRef ref : run.communicators[communicator].members) {
        if (run.member(ref).global_rank == rank) {
            return ref;
        }
    }
    return {};
}

int comm_rank_of(const Run& run, uint32_t communicator, int rank) {
    if (const MemberRef ref = member_of_rank(run, communicator, rank); ref.known()) {
        return run.member(ref).rank;
    }
    const Communicator& group = run.communicators[communicator];
    for (int comm_rank = 0; comm_rank < static_cast<int>(group.by_rank.size()); ++comm_rank) {
        if (!group.by_rank[static_cast<size_t>(comm_rank)].known() && run.global_rank(group, comm_rank) == rank) {
            return comm_rank;
        }
    }
    return -1;
}

EditedNumbers::EditedNumbers(const Run& run, const std::vector<CallEdit>& edits) {
    for (const CallEdit& edit : edits) {
        const MemberRef member =
            edit.communicator == kNoIndex ? MemberRef() : member_of_rank(run, edit.communicator, edit.rank);
        if (edit.kind == CallEdit::Kind::kAlive || !member.known()) {
            continue;
        }
        Changes& changes = changes_of(line_of(member, edit));
        insert_sorted(edit.kind == CallEdit::Kind::kInsert ? changes.inserted : changes.removed, edit.sequence);
    }
}

EditedNumbers::Line EditedNumbers::line_of(MemberRef member, const Entry& entry) {
    return format::is_collective(entry.kind) ? Line{member} : Line{member, entry.kind, entry.peer};
}

EditedNumbers::Line EditedNumbers::line_of(MemberRef member, const CallEdit& edit) {
    return format::is_collective(edit.op) ? Line{member}
                                          : Line{member, edit.op, edit.op == OpKind::kSend ? edit.target : edit.source};
}

EditedNumbers::Line line_in(const Run& run, MemberRef member, const MeetingKey& key) {
    const auto [communicator, sequence, source, target] = key;
    if (source < 0 && target < 0) {
        return {member};
    }
    return run.member(member).rank == source ? EditedNumbers::Line{member, OpKind::kSend, target}
                                             : EditedNumbers::Line{member, OpKind::kRecv, source};
}

std::optional<uint64_t> calls_made(const Run& run, const EditedNumbers::Line& line) {
    const Member& member = run.member(line.member);
    if (line.half == OpKind{}) {
        return member.issued;
    }
    return !member.p2p_counted ? std::nullopt
                               : std::optional(line.half == OpKind::kSend ? member.sent_to(line.peer)
                                                                          : member.received_from(line.peer));
}

const EditedNumbers::Changes* EditedNumbers::find(const Line& line) const {
    const auto found = std::ranges::find_if(changes_, [&](const Changes& each) { return each.line == line; });
    return found == changes_.end() ? nullptr : &*found;
}

EditedNumbers::Changes& EditedNumbers::changes_of(const Line& line) {
    const Changes* const known = find(line);
    return known != nullptr ? changes_[static_cast<size_t>(known - changes_.data())]
                            : changes_.emplace_back(Changes{line, {}, {}});
}

uint64_t EditedNumbers::number(const Line& line, uint64_t recorded) const {
    const Changes* const changes = find(line);
    if (changes == nullptr || recorded == kNoSequence) {
        return recorded;
    }
    if (std::ranges::binary_search(changes->removed, recorded)) {
        return kNoSequence;
    }
    uint64_t number = recorded - count_below(changes->removed, recorded);
    for (const uint64_t inserted : changes->inserted) {
        number += number >= inserted ? 1 : 0;
    }
    return number;
}

uint64_t EditedNumbers::made(const Line& line, uint64_t recorded) const {
    const Changes* const changes = find(line);
    return changes == nullptr ? recorded
                              : recorded - count_below(changes->removed, recorded) + changes->inserted.size();
}

uint32_t Score::add_unit(uint32_t process) {
    units.emplace_back().process = process;
    return static_cast<uint32_t>(units.size() - 1);
}

void Score::follow(uint32_t unit, uint32_t earlier) {
    if (unit != earlier) {
        units[earlier].followers.push_back(unit);
        ++units[unit].ahead;
    }
}

void Score::join(uint32_t unit, const MeetingKey& key, const Entry* entry) {
    const auto [found, inserted] = index_.try_emplace(key, static_cast<uint32_t>(meetings.size()));
    if (inserted) {
        meetings.emplace_back().key = key;
    }
    Meeting& meeting = meetings[found->second];
    meeting.units.push_back(unit);
    if (entry != nullptr) {
        meeting.entries.push_back(entry);
    }
    units[unit].meetings.push_back(found->second);
}

void Score::add_calls(uint32_t process, const std::vector<Progress>& progress, size_t most) {
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
    for (uint32_t index = 0; index < std::min(owner.entries.size(), most); ++index) {
        const Entry& entry = owner.entries[index];
        if (progress[index] == Progress::kNone) {
            continue;
        }
        hand_over(entry.entered_ns);
        Frontier& stream = streams[entry.stream];
        if (progress[index] == Progress::kDone) {
            stream.clear();
            continue;
        }
        const bool collective = format::is_collective(entry.kind);
        const EditedNumbers::Line line = EditedNumbers::line_of({process, entry.row}, entry);
        const uint64_t number = numbers_.number(line, entry.sequence);
        if (number == kNoSequence && entry.sequence != kNoSequence) {
            continue;
        }
        auto unit = static_cast<uint32_t>(units.size());
        if (entry.group != 0 || entry.replay != 0) {
            // A launch is one, also where it has groups among its collectives.
            unit = together.try_emplace({entry.replay == 0 ? entry.group : 0, entry.replay}, unit).first->second;
        }
        if (unit == units.size()) {
            add_unit(process);
        }
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
        add_entry(unit, process, index, number, progress[index]);
    }
}

void Score::add_entry(uint32_t index, uint32_t process, uint32_t entry_index, uint64_t number, Progress progress) {
    const Process& owner = run_.processes[process];
    const Entry& entry = owner.entries[entry_index];
    Unit& unit = units[index];
    unit.entries.push_back(entry_index);
    unit.unlaunched |= progress == Progress::kUnlaunched;
    unit.may_start &= progress != Progress::kUnlaunched && !(as_seen_ && entry.device == DeviceState::kNotReached);
    unit.may_end &= !(as_seen_ && progress == Progress::kUnfinished);
    const uint32_t communicator = entry.row == kNoIndex ? kNoIndex : owner.members[entry.row].communicator;
    if (communicator == kNoIndex || number == kNoSequence) {
        return;
    }
    const int self = owner.members[entry.row].rank;
    const bool send = entry.kind == OpKind::kSend;
    join(index,
         format::is_collective(entry.kind)
             ? MeetingKey{communicator, number, -1, -1}
             : MeetingKey{communicator, number, send ? self : entry.peer, send ? entry.peer : self},
         &entry);
}

bool pair_agrees(const Entry& one, const Entry& other) {
    const auto bytes = [](const Entry& entry) { return entry.count * format::datatype_size_bytes(entry.datatype); };
    return one.arguments_lost || other.arguments_lost || bytes(one) == bytes(other);
}

Played play(const Score& score) { return Player(score).run(); }

}  // namespace titan::analyzer
