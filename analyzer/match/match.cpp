#include "match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "call_order.h"
#include "expected.h"
#include "host/words.h"
#include "replays.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxPerCommunicator = 16;

// The one word for a difference. The operation says most; a wrong datatype explains a wrong count (the same bytes), not
// the other way round.
FindingKind kind_of_difference(const CallSignature& a, const CallSignature& b) {
    if (a.kind != b.kind || (a.kind == OpKind::kOtherCollective && a.agreed != b.agreed)) {
        return FindingKind::kOpMismatch;
    }
    if (a.peer != b.peer) {
        return FindingKind::kRootMismatch;
    }
    if (a.datatype != b.datatype) {
        return FindingKind::kDtypeMismatch;
    }
    return a.count != b.count || a.agreed != b.agreed ? FindingKind::kSizeMismatch : FindingKind::kRedopMismatch;
}

struct Caller {
    MemberRef ref;
    const CallSignature* call;
};
using Bloc = std::vector<Caller>;  // callers with equal arguments

std::vector<int> ranks_of(const Run& run, const Bloc& bloc) {
    std::vector<int> ranks;
    for (const Caller& caller : bloc) {
        ranks.push_back(run.member(caller.ref).global_rank);
    }
    return ranks;
}

std::vector<Bloc> blocs_of(const std::vector<Caller>& callers) {
    std::vector<Bloc> blocs;
    for (const Caller& caller : callers) {
        const auto mine = std::ranges::find_if(
            blocs, [&](const Bloc& bloc) { return same_arguments(*bloc.front().call, *caller.call); });
        if (mine == blocs.end()) {
            blocs.push_back({caller});
        } else {
            mine->push_back(caller);
        }
    }
    std::ranges::stable_sort(blocs, [](const Bloc& a, const Bloc& b) { return a.size() > b.size(); });
    return blocs;
}

// Did it do there what it never did?
bool deviates(const Run& run, const Caller& caller, uint64_t sequence) {
    const auto place = run.member(caller.ref).call_log.find(sequence);
    const auto edit = place ? own_edit(run.process(caller.ref), *place) : std::nullopt;
    return edit && !edit->may_be_cut;
}

// Chooses among equally large blocs the one that siblings agree with, or the only one that did not do there what it
// never did.
const Bloc* break_tie(const Run& run, uint32_t communicator, uint64_t sequence, const std::vector<Bloc>& blocs,
                      size_t tied, std::string& how) {
    std::vector<size_t> votes(tied, 0);
    for (uint32_t other = 0; other < run.communicators.size(); ++other) {
        if (other == communicator || !are_siblings(run, communicator, other)) {
            continue;
        }
        for (const MemberRef ref : run.communicators[other].members) {
            const CallSignature* call = run.process(ref).signature_at(run.member(ref), sequence);
            for (size_t bloc = 0; call != nullptr && bloc < tied; ++bloc) {
                votes[bloc] += same_arguments(*call, *blocs[bloc].front().call) ? 1 : 0;
            }
        }
    }
    const auto winner = [&]() -> const Bloc* {
        const auto best = std::ranges::max_element(votes);
        const bool unique = *best > 0 && std::ranges::count(votes, *best) == 1;
        return unique ? &blocs[static_cast<size_t>(best - votes.begin())] : nullptr;
    };
    if (const Bloc* bloc = winner()) {
        how = "in other communicators of the same role the ranks call what " + ranks_text(ranks_of(run, *bloc)) +
              " called";
        return bloc;
    }
    std::vector<int> odd;
    for (size_t bloc = 0; bloc < tied; ++bloc) {
        votes[bloc] = deviates(run, blocs[bloc].front(), sequence) ? 0 : 1;
        const std::vector<int> ranks = votes[bloc] == 0 ? ranks_of(run, blocs[bloc]) : std::vector<int>();
        odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    how = ranks_text(odd) + " did otherwise than was always done in that place before";
    return winner();
}

std::string list_and(const std::vector<std::string>& items) {
    std::string text;
    for (size_t i = 0; i < items.size(); ++i) {
        text += i == 0 ? "" : i + 1 == items.size() ? " and " : ", ";
        text += items[i];
    }
    return text;
}

std::string call_and_arguments(const Entry& entry) {
    const std::string replay = replay_text(entry);
    return op_text(entry.kind) + " (" + arguments_text(entry) + ")" + (replay.empty() ? "" : ", by " + replay);
}

// The same with what the record has beyond: shapes, and the place in the program.
std::string call_in_full(const Process& process, const Entry& entry) {
    const std::string& shape = process.text(entry.shape);
    return call_and_arguments(entry) + (shape.empty() ? "" : " " + shape) + site_text(process, entry);
}

// The value that differs, in words of the finding's kind: "sum", "root 0", "1,024 elements".
std::string difference_text(FindingKind kind, const Entry& entry) {
    switch (kind) {
        case FindingKind::kRootMismatch: return fmt::format("root {}", entry.peer);
        case FindingKind::kDtypeMismatch: return datatype_text(entry.datatype);
        case FindingKind::kSizeMismatch: return many_counted(entry.count, "element");
        case FindingKind::kRedopMismatch: return reduction_text(entry.reduction);
        default: return op_text(entry.kind);
    }
}

class CommunicatorMatcher {
  public:
    CommunicatorMatcher(const Run& run, uint32_t index)
        : run_(run), index_(index), communicator_(run.communicators[index]) {
        for (const MemberRef ref : communicator_.members) {
            if (!run.member(ref).call_log.empty()) {
                cursors_.push_back({ref, 0, false});
            }
        }
    }

    std::vector<Mismatch> run() {
        while (!is_over() && step()) {
        }
        return std::move(found_);
    }

  private:
    struct Cursor {
        MemberRef ref;
        size_t next;    // index in its past
        bool excluded;  // shifted: from there on it is compared no more
    };

    bool is_over() const { return finished_ || found_.size() >= kMaxPerCommunicator; }
    const CallLog& log_of(const Cursor& cursor) const { return run_.member(cursor.ref).call_log; }

    // The cursor's next sequence number; kNoSequence where there is none or it is left out.
    uint64_t next_of(const Cursor& cursor) const {
        const CallLog& log = log_of(cursor);
        return cursor.excluded || cursor.next >= log.size() ? kNoSequence : log.sequence(cursor.next);
    }

    const CallSignature& call_of(const Cursor& cursor) const {
        return run_.process(cursor.ref).history[log_of(cursor).place(cursor.next)];
    }

    // Compares the block of the lowest sequence number not compared yet. Members whose calls in it hash alike are one:
    // the first of them stands for all. False when there is nothing left.
    bool step() {
        uint64_t lowest = kNoSequence;
        for (const Cursor& cursor : cursors_) {
            lowest = std::min(lowest, next_of(cursor));
        }
        if (lowest == kNoSequence) {
            return false;
        }
        const uint64_t block = lowest / CallLog::kBlockCalls;
        const uint64_t last = block * CallLog::kBlockCalls + (CallLog::kBlockCalls - 1);
        std::vector<Cursor*> compared;
        std::vector<Cursor*> stood_for;
        uint64_t hash = 0;
        for (Cursor& cursor : cursors_) {
            if (next_of(cursor) > last) {
                continue;
            }
            const uint64_t own = log_of(cursor).block_hash(block);
            if (own != 0 && own == hash) {
                stood_for.push_back(&cursor);
                continue;
            }
            hash = hash == 0 ? own : hash;
            compared.push_back(&cursor);
        }
        if (compared.size() > 1) {
            compare(compared, last);
        }
        for (const auto* group : {&compared, &stood_for}) {
            for (Cursor* cursor : *group) {
                cursor->next = last == UINT64_MAX ? log_of(*cursor).size() : log_of(*cursor).lower_bound(last + 1);
            }
        }
        return true;
    }

    // Call by call, up to the sequence number `last`.
    void compare(const std::vector<Cursor*>& cursors, uint64_t last) {
        while (!is_over()) {
            uint64_t lowest = kNoSequence;
            for (const Cursor* cursor : cursors) {
                lowest = std::min(lowest, next_of(*cursor));
            }
            if (lowest > last || lowest == kNoSequence) {
                return;
            }
            const CallSignature* first = nullptr;
            bool differs = false;
            for (Cursor* cursor : cursors) {
                if (next_of(*cursor) == lowest) {
                    const CallSignature& call = call_of(*cursor);
                    ++cursor->next;
                    first = first == nullptr ? &call : first;
                    differs |= !same_arguments(*first, call);
                }
            }
            if (differs) {
                resolve(lowest);
            }
        }
    }

    void resolve(uint64_t sequence) {
        std::vector<Caller> callers;
        for (const Cursor& cursor : cursors_) {
            const CallSignature* call =
                cursor.excluded ? nullptr : run_.process(cursor.ref).signature_at(run_.member(cursor.ref), sequence);
            if (call != nullptr) {
                callers.push_back({cursor.ref, call});
            }
        }
        const std::vector<Bloc> blocs = blocs_of(callers);
        if (const auto kind = each_passes_its_own(blocs)) {
            found_.push_back(each_its_own(*kind, sequence, callers));
            return;
        }
        size_t tied = 1;
        while (tied < blocs.size() && blocs[tied].size() == blocs[0].size()) {
            ++tied;
        }
        std::string how;
        const Bloc* right = tied == 1 ? &blocs[0] : break_tie(run_, index_, sequence, blocs, tied, how);
        if (right == nullptr) {
            found_.push_back(undecidable(sequence, blocs));
            finished_ = true;
            return;
        }
        for (const Bloc& bloc : blocs) {
            if (&bloc != right) {
                accuse(sequence, bloc, *right, tied > 1, how, callers.size());
            }
        }
    }

    // Three or more members, each with its own rank as the root, or with a size of its own.
    std::optional<FindingKind> each_passes_its_own(const std::vector<Bloc>& blocs) const {
        constexpr size_t kLeastMembers = 3;
        if (blocs.size() < kLeastMembers) {
            return std::nullopt;
        }
        const FindingKind kind = kind_of_difference(*blocs[0].front().call, *blocs[1].front().call);
        const auto is_own = [&](const Bloc& bloc) {
            const CallSignature& call = *bloc.front().call;
            const bool differs_so = &bloc == blocs.data() || kind_of_difference(*blocs[0].front().call, call) == kind;
            return bloc.size() == 1 && differs_so &&
                   (kind == FindingKind::kSizeMismatch ||
                    (call.peer >= 0 && call.peer == run_.member(bloc.front().ref).rank));
        };
        const bool is_of_value = kind == FindingKind::kSizeMismatch || kind == FindingKind::kRootMismatch;
        return is_of_value && std::ranges::all_of(blocs, is_own) ? std::optional(kind) : std::nullopt;
    }

    Mismatch mismatch_of(uint64_t sequence, FindingKind kind, const std::vector<Bloc>& wrong) const {
        Mismatch mismatch;
        mismatch.communicator = index_;
        mismatch.sequence = sequence;
        mismatch.kind = kind;
        for (const Bloc& bloc : wrong) {
            for (const Caller& caller : bloc) {
                mismatch.culprits.push_back(caller.ref);
            }
        }
        return mismatch;
    }

    void show_call(const Bloc& bloc, Mismatch& mismatch) const {
        mismatch.evidence.push_back(
            phrase("{}: {}", ranks_fact(ranks_of(run_, bloc)),
                   call_in_full(run_.process(bloc.front().ref), call_of(bloc.front(), mismatch.sequence))));
    }

    Mismatch each_its_own(FindingKind kind, uint64_t sequence, const std::vector<Caller>& callers) const {
        Mismatch mismatch = mismatch_of(sequence, kind, {callers});
        constexpr size_t kShown = 8;
        std::vector<std::string> counts;
        for (size_t i = 0; i < std::min(callers.size(), kShown); ++i) {
            show_call({callers[i]}, mismatch);
            counts.push_back(grouped_digits(callers[i].call->count));
        }
        if (callers.size() > kShown) {
            counts.push_back(fmt::format("{} more", callers.size() - kShown));
        }
        const Sentence who = ranks_fact(ranks_of(run_, callers));
        const Sentence call = call_fact(run_, index_, callers.front().call->kind, sequence);
        mismatch.summary =
            kind == FindingKind::kRootMismatch
                ? phrase("{} each named themselves as the root of {}", who, call)
                : phrase("{} each called {} with another number of elements: {}", who, call, list_and(counts));
        return mismatch;
    }

    Entry call_of(const Caller& caller, uint64_t sequence) const {
        return run_.process(caller.ref).recall(run_.member(caller.ref), sequence).value_or(Entry());
    }

    Mismatch undecidable(uint64_t sequence, const std::vector<Bloc>& blocs) const {
        Mismatch mismatch =
            mismatch_of(sequence, kind_of_difference(*blocs[0].front().call, *blocs[1].front().call), blocs);
        mismatch.undecidable = true;
        mismatch.confidence = Confidence::kPossible;
        std::vector<std::string> sides;
        for (const Bloc& bloc : blocs) {
            sides.push_back(fmt::format("{} {} {}", ranks_text(ranks_of(run_, bloc)),
                                        verb_form(bloc.size(), "calls", "call"),
                                        call_and_arguments(call_of(bloc.front(), sequence))));
            show_call(bloc, mismatch);
        }
        note_threads(mismatch, sequence, blocs);
        mismatch.summary = phrase("members disagree at #{} on {}: {}; which side is wrong is undecidable", sequence,
                                  communicator_text(communicator_), list_and(sides));
        return mismatch;
    }

    void accuse(uint64_t sequence, const Bloc& bloc, const Bloc& right, bool tie_broken, const std::string& how,
                size_t present) {
        Mismatch mismatch = mismatch_of(sequence, kind_of_difference(*right.front().call, *bloc.front().call), {bloc});
        for (const Caller& caller : right) {
            mismatch.others.push_back(caller.ref);
        }
        mismatch.edit = edit_beside(run_, bloc.front().ref, right.front().ref, sequence);
        const Edit& edit = mismatch.edit;
        if (folds_into_known(mismatch)) {
            return;
        }
        const auto is_new = [&](const Caller& caller) { return deviates(run_, caller, sequence); };
        mismatch.most_deviate = std::ranges::none_of(bloc, is_new) && std::ranges::all_of(right, is_new);
        const size_t members = communicator_.size > 0 ? static_cast<size_t>(communicator_.size) : present;
        const bool majority = right.size() * 2 > members && right.size() >= 2;
        mismatch.confidence =
            majority && !tie_broken && !edit.or_extra && !edit.by_threads ? Confidence::kCertain : Confidence::kLikely;
        if (!how.empty()) {
            mismatch.evidence.push_back(how);
        }
        describe(mismatch, bloc, right);
        mismatch.several_threads = edit.by_threads;
        if (edit.kind == EditKind::kChanged || edit.or_extra || !has_its_own_thread(bloc.front(), right) ||
            !has_its_own_thread(right.front(), bloc)) {
            note_threads(mismatch, sequence, {bloc, right});
        }
        if (edit.kind != EditKind::kChanged) {
            for (Cursor& cursor : cursors_) {
                cursor.excluded |= std::ranges::find(mismatch.culprits, cursor.ref) != mismatch.culprits.end();
            }
        }
        found_.push_back(std::move(mismatch));
    }

    bool made_by_main(const Process& process, const CallSignature& call) const {
        return static_cast<int32_t>(call.thread) == process.pid;
    }

    // Others make such a call on a thread of the same kind: gradients on autograd's, a flag on the main one. Then one
    // call too many, or too few, tells all.
    bool has_its_own_thread(const Caller& caller, const Bloc& others) const {
        const bool by_main = made_by_main(run_.process(caller.ref), *caller.call);
        return std::ranges::any_of(others, [&](const Caller& other) {
            const Process& process = run_.process(other.ref);
            const auto& signatures = process.history.signatures;
            return std::ranges::any_of(signatures, [&](const CallSignature& call) {
                return call.row == other.ref.row && same_arguments(call, *caller.call) &&
                       made_by_main(process, call) == by_main;
            });
        });
    }

    // Two threads of a rank that call on one communicator must agree on an order; nothing else makes them.
    void note_threads(Mismatch& mismatch, uint64_t sequence, const std::vector<Bloc>& blocs) const {
        std::vector<int> by_main;
        std::vector<int> by_others;
        for (const Bloc& bloc : blocs) {
            for (const Caller& caller : bloc) {
                const bool is_main = made_by_main(run_.process(caller.ref), *caller.call);
                (is_main ? by_main : by_others).push_back(run_.member(caller.ref).global_rank);
            }
        }
        const bool differ = !by_main.empty() && !by_others.empty();
        mismatch.several_threads |= differ;
        if (differ) {
            mismatch.evidence.push_back(phrase(
                "the main thread made #{} on {}, another thread on {}: several threads call on this communicator, and "
                "NCCL needs one order of their calls on all ranks",
                sequence, ranks_fact(by_main), ranks_fact(by_others)));
        }
    }

    bool folds_into_known(const Mismatch& mismatch) {
        for (Mismatch& known : found_) {
            if (known.kind == mismatch.kind && known.culprits == mismatch.culprits &&
                mismatch.edit.kind == EditKind::kChanged) {
                ++known.repeats;
                return true;
            }
        }
        return false;
    }

    void describe(Mismatch& mismatch, const Bloc& bloc, const Bloc& right) const {
        const std::vector<int> culprits = ranks_of(run_, bloc);
        const std::vector<int> others = ranks_of(run_, right);
        const Entry wrong = call_of(bloc.front(), mismatch.sequence);
        const Entry good = call_of(right.front(), mismatch.sequence);
        const Sentence who = ranks_fact(culprits);
        const Sentence group = communicator_fact(run_, index_);
        const Sentence place = phrase("#{} on {}", mismatch.sequence, group);
        const std::string_view its = verb_form(culprits.size(), "its", "their");
        const Sentence replay = replay_that_holds(run_.process(right.front().ref), good,
                                                  call_fact(run_, index_, good.kind, mismatch.sequence));
        const bool launched = !replay.empty() && wrong.replay == 0;
        const Edit& edit = mismatch.edit;
        const bool missing = edit.kind == EditKind::kMissing;
        const auto tell = [&](Sentence summary, const char* support) {
            mismatch.summary = std::move(summary);
            mismatch.evidence.emplace_back(support);
        };
        const char* const support = edit.by_step   ? "its call there belongs to a later step"
                                    : edit.by_past ? "in earlier steps its call there came after the missing one"
                                    : launched     ? "with that launch added, its calls match those of the others"
                                                   : "shifted by one call, its calls match those of the others";
        if (missing && launched) {
            tell(phrase("{} never launched {}: the others meet {} next call, {}, instead", who, replay, its,
                        op_text(wrong.kind)),
                 support);
        } else if (edit.kind == EditKind::kSwapped) {
            mismatch.summary = phrase("{} called {} before {} on {}, where {} called them in the other order", who,
                                      call_and_arguments(wrong), call_and_arguments(good), group, ranks_fact(others));
            mismatch.evidence.push_back(
                phrase("the calls are #{} and #{} on {}", mismatch.sequence, mismatch.sequence + 1, group));
        } else if (edit.or_extra) {
            tell(phrase("{} skipped {} {}, or made one {} too many: the others meet {} next call instead", who,
                        op_text(good.kind), place, op_text(wrong.kind), its),
                 "with one call more or one less, its calls match those of the others");
        } else if (!edit.is_told) {
            tell(phrase("{} called {} {}, where {} called {}: {} skipped a call, made one too many, or called another "
                        "one",
                        who, call_and_arguments(wrong), place, ranks_fact(others), call_and_arguments(good),
                        verb_form(culprits.size(), "it", "they")),
                 "the record shows too few later calls to tell which");
        } else if (missing) {
            tell(phrase("{} skipped {} {}: the others meet {} next call, {}, instead", who, op_text(good.kind), place,
                        its, op_text(wrong.kind)),
                 support);
        } else if (edit.kind == EditKind::kExtra && edit.by_threads) {
            tell(phrase("two threads of {} share {}, and one came with {} #{} before the other with {}, which the "
                        "others call there",
                        who, group, op_text(wrong.kind), mismatch.sequence, op_text(good.kind)),
                 "nothing orders the calls of two threads, and NCCL needs one order on all ranks; or that call is one "
                 "too many");
        } else if (edit.kind == EditKind::kExtra) {
            tell(phrase("{} issued an extra {} {}, where the others call {}", who, op_text(wrong.kind), place,
                        op_text(good.kind)),
                 "without that call, its calls match those of the others");
        } else if (launched) {
            mismatch.summary = phrase("{} called {} {} where {} launched {}", who, call_and_arguments(wrong), place,
                                      ranks_fact(others), replay);
        } else if (mismatch.kind == FindingKind::kOpMismatch) {
            mismatch.summary = phrase("{} called {} {} where {} called {}", who, op_text(wrong.kind), place,
                                      ranks_fact(others), op_text(good.kind));
        } else {
            const bool by_shape = mismatch.kind == FindingKind::kSizeMismatch && wrong.count == good.count;
            const bool by_both = mismatch.kind == FindingKind::kDtypeMismatch && wrong.count != good.count;
            const auto differs = [&](const Bloc& side, const Entry& call) {
                return by_shape  ? run_.process(side.front().ref).text(call.shape)
                       : by_both ? arguments_text(call)
                                 : difference_text(mismatch.kind, call);
            };
            mismatch.summary = phrase("{} called {} {} with {}, {} with {}", who, op_text(wrong.kind), place,
                                      differs(bloc, wrong), ranks_fact(others), differs(right, good));
        }
        show_call(bloc, mismatch);
        show_call(right, mismatch);
    }

    const Run& run_;
    uint32_t index_;
    const Communicator& communicator_;
    std::vector<Cursor> cursors_;
    std::vector<Mismatch> found_;
    bool finished_ = false;
};

}  // namespace

std::vector<Mismatch> find_mismatches(const Run& run) {
    std::vector<Mismatch> all;
    for (uint32_t index = 0; index < run.communicators.size(); ++index) {
        if (run.communicators[index].members.size() < 2) {
            continue;
        }
        auto found = CommunicatorMatcher(run, index).run();
        std::move(found.begin(), found.end(), std::back_inserter(all));
    }
    for (Mismatch& mismatch : all) {
        if (mismatch.repeats != 0) {
            mismatch.evidence.push_back(phrase("and {} more times after that", grouped_digits(mismatch.repeats)));
        }
    }
    return all;
}

}  // namespace titan::analyzer
