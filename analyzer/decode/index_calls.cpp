#include "index_calls.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/hash.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

// Threads that issued none of the last calls have nothing to do with the next one.
constexpr size_t kRecentCalls = 512;
constexpr size_t kTypicalCalls = 64;

struct HashOfSignature {
    size_t operator()(const CallSignature& signature) const {
        return hash_of_arguments(signature) ^
               (signature.row * kHashMultiplier + signature.graph + (uint64_t{signature.thread} << 20));
    }
};

CallSignature signature_of(const Entry& entry) {
    CallSignature signature;
    signature.count = entry.count;
    signature.row = entry.row;
    signature.graph = entry.graph;
    signature.thread = entry.thread;
    signature.site = entry.site;
    signature.words = entry.shape;
    signature.agreed = entry.agreed;
    signature.peer = entry.peer;
    signature.kind = entry.kind;
    signature.datatype = entry.datatype;
    signature.reduction = entry.reduction;
    // NCCL took no notice of a call that it refused: like a captured one, it did not run.
    signature.captured = entry.captured || (entry.state == CallState::kFailed && entry.sequence == kNoSequence);
    signature.replayed = entry.replay != 0;
    signature.arguments_lost = entry.arguments_lost;
    return signature;
}

// Numbers signatures as they come. Programs repeat a few of them in turns, so a small table in front saves most
// look-ups.
class SignatureTable {
  public:
    explicit SignatureTable(std::vector<CallSignature>& signatures) : signatures_(signatures) {}
    uint32_t number_of(const CallSignature& signature) {
        const size_t hash = HashOfSignature{}(signature);
        uint32_t& recent = recent_[hash % kRecent];
        if (recent < signatures_.size() && signatures_[recent] == signature) {
            return recent;
        }
        const auto [found, inserted] = numbers_.try_emplace(signature, static_cast<uint32_t>(signatures_.size()));
        if (inserted) {
            signatures_.push_back(signature);
        }
        return recent = found->second;
    }

  private:
    static constexpr size_t kRecent = 256;
    std::vector<CallSignature>& signatures_;
    std::unordered_map<CallSignature, uint32_t, HashOfSignature> numbers_;
    uint32_t recent_[kRecent] = {};
};

void build_history(Process& process) {
    History& history = process.history;
    history = History();
    SignatureTable table(history.signatures);
    std::vector<uint32_t> calls(process.entries.size());
    history.marks_ns.reserve(calls.size() / History::kMarkDistance + 1);
    for (uint32_t place = 0; place < calls.size(); ++place) {
        Entry& entry = process.entries[place];
        entry.place = place;
        calls[place] = table.number_of(signature_of(entry));
        history.steps.add(place, entry.step);
        history.replays.add(place, static_cast<int32_t>(entry.replay));
        if (place % History::kMarkDistance == 0) {
            history.marks_ns.push_back(entry.entered_ns);
        }
    }
    history.calls.assign(calls);
    history.signatures.shrink_to_fit();
}

void fill_call_logs(Process& process) {
    std::vector<uint64_t> sequences;
    std::vector<uint32_t> places;
    for (Member& member : process.members) {
        sequences.clear();
        places.clear();
        for (const uint32_t call : member.calls) {
            if (!process.entries[call].arguments_lost) {
                sequences.push_back(process.entries[call].sequence);
                places.push_back(process.entries[call].place);
            }
        }
        member.call_log.assign(sequences, places, process.history);
    }
}

void find_callers(Process& process) {
    const size_t count = process.entries.size();
    for (size_t i = count > kRecentCalls ? count - kRecentCalls : 0; i < count; ++i) {
        process.callers.push_back(process.entries[i].thread);
    }
    std::sort(process.callers.begin(), process.callers.end());
    process.callers.erase(std::unique(process.callers.begin(), process.callers.end()), process.callers.end());
    process.callers.shrink_to_fit();
}

int64_t typical_ns(const Process& process, const Member& member) {
    std::vector<int64_t> durations;
    for (size_t i = member.calls.size(); i-- > 0 && durations.size() < kTypicalCalls;) {
        const Entry& entry = process.entries[member.calls[i]];
        if (entry.finished_ns > entry.entered_ns && entry.entered_ns != 0 &&
            process.may_have_taken(entry.finished_ns - entry.entered_ns)) {
            durations.push_back(entry.finished_ns - entry.entered_ns);
        }
    }
    return typical_of(std::move(durations));
}

// Calls of a member that take far longer than its others, such as those in which ranks wait for the next evaluation or
// request, are usual if there are several, or one half-way to the newest call. The first calls set connections up.
void note_returning_waits(Process& process) {
    constexpr size_t kFirstCalls = 2;
    constexpr int64_t kTimesTypical = 20;
    constexpr int64_t kLeastNs = 200'000'000;
    struct Like {
        size_t calls = 0, place = 0, count = 0;
        int64_t longest_ns = 0;
        bool is_half_way() const {
            const size_t newest = calls - 1, slack = newest / 50 + 1;
            return 2 * place <= newest + slack && newest <= 2 * place + slack;
        }
    };
    std::map<std::tuple<uint32_t, OpKind, int32_t>, Like> likes;  // by row; messages also by kind and peer
    for (const Entry& entry : process.entries) {
        if (entry.row >= process.members.size() || entry.entered_ns == 0) {
            continue;
        }
        const bool is_message = format::class_of(entry.kind) == format::OpClass::p2p;
        Like& like = likes[{entry.row, is_message ? entry.kind : OpKind{}, is_message ? entry.peer : -1}];
        const int64_t took_ns = entry.finished_ns - entry.entered_ns;
        const int64_t usual_ns = process.members[entry.row].typical_ns;
        if (like.calls++ >= kFirstCalls && took_ns > kLeastNs && took_ns / kTimesTypical > usual_ns &&
            process.may_have_taken(took_ns)) {
            like.place = like.calls - 1;
            ++like.count;
            like.longest_ns = std::max(like.longest_ns, took_ns);
        }
    }
    for (const auto& [key, like] : likes) {
        if (like.count > 1 || (like.count == 1 && like.is_half_way())) {
            int64_t& returning_ns = process.members[std::get<0>(key)].returning_ns;
            returning_ns = std::max(returning_ns, like.longest_ns);
        }
    }
}

}  // namespace

int64_t longest_pause_ns(const Process& process) {
    int64_t longest = 0;
    for (size_t i = 1; i < process.entries.size(); ++i) {
        if (process.entries[i].kind == OpKind::kCommAbort) {
            continue;
        }
        longest = std::max(longest, process.entries[i].entered_ns - process.entries[i - 1].entered_ns);
    }
    return longest;
}

void index_entries(Process& process) {
    for (Member& member : process.members) {
        member.calls.clear();
    }
    for (uint32_t i = 0; i < process.entries.size(); ++i) {
        const Entry& entry = process.entries[i];
        if (entry.row >= process.members.size() || entry.sequence == kNoSequence ||
            !format::is_collective(entry.kind)) {
            continue;
        }
        process.members[entry.row].calls.push_back(i);
    }
    for (Member& member : process.members) {
        const auto by_sequence = [&](uint32_t a, uint32_t b) {
            return process.entries[a].sequence < process.entries[b].sequence;
        };
        if (!std::is_sorted(member.calls.begin(), member.calls.end(), by_sequence)) {
            std::stable_sort(member.calls.begin(), member.calls.end(), by_sequence);
        }
        const auto same = [&](uint32_t a, uint32_t b) {
            return process.entries[a].sequence == process.entries[b].sequence;
        };
        member.calls.erase(std::unique(member.calls.begin(), member.calls.end(), same), member.calls.end());
        member.calls.shrink_to_fit();
    }
}

void index_calls(Process& process) {
    build_history(process);
    index_entries(process);
    fill_call_logs(process);
    find_callers(process);
    const bool watched = process.gpu_progress || process.sees.by_watchdog;
    const int64_t pause_ns = watched ? 0 : longest_pause_ns(process);
    for (Member& member : process.members) {
        // The record is the truth, but it is copied a moment before the entries.
        for (const uint32_t call : member.calls) {
            const Entry& entry = process.entries[call];
            member.issued = std::max(member.issued, entry.sequence + 1);
            if (entry.state == CallState::kFinished) {
                member.finished = std::max(member.finished, entry.sequence + 1);
            }
        }
        member.typical_ns = watched ? typical_ns(process, member) : pause_ns;
    }
    if (watched) {
        note_returning_waits(process);
    }
}

}  // namespace titan::analyzer
