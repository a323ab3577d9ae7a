// What a rank should have called: what ranks of the same role call there, or what it always called there itself.
// Training repeats its steps, so what followed the longest earlier stretch equal to the newest one is nearly always
// right, and it is known where it tells nothing.
//
//    A B C D A B C D A B C D A B D A      `usual` at the marked call: C
//                                ^        the edit there: D was made instead of C
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "run.h"

namespace titan::analyzer {

inline constexpr size_t kMaxHistory = 4096;  // a call is compared with so many before it

enum class EditKind : uint8_t {
    kChanged,  // another call, or other arguments
    kMissing,  // it left out a call, or a graph launch
    kExtra,    // it made one too many
    kSwapped,  // it made two in the other order
};

// A call that differs from what was to be expected in its place: what was done to the calls there.
struct Edit {
    uint32_t process = kNoIndex;
    uint32_t place = kNoIndex;  // in its history
    EditKind kind = EditKind::kChanged;
    bool or_extra = false;  // missing, or extra: both explain the calls that follow
    bool is_told = true;    // false: too few calls follow to tell its kind
    // What was to come there, in order, up to the call that was made: on communicators of this rank.
    std::vector<CallSignature> instead;
    // What supports it.
    size_t context = 0;         // its own past: so many equal calls went before
    bool may_be_cut = false;    // the record begins with these, and what went before them may matter
    std::vector<int> siblings;  // ranks with the same role, who all made the first of `instead`
    bool by_step = false;       // its call belongs to a later step than theirs
    bool by_past = false;       // its call always came after the missing one
    bool by_threads = false;    // extra, or only too early: another thread makes the call that the others have there
};

// The newest calls of a process, or some of them, beside their own repetitions. Calls are equal where communicator,
// operation, peer and arguments are.
class Past {
  public:
    // `places`: in the history, rising.
    Past(const Process& process, std::vector<uint32_t> places);
    // Calls of the thread that made this one, or of all threads where only one makes calls.
    static Past of_thread(const Process& process, uint32_t place);
    // Sends, or receives, of this call's member with its peer.
    static Past of_pair(const Process& process, const Entry& call);
    // Collectives of a member before the one with index `end` in its log.
    static Past of_member(const Process& process, const Member& member, size_t end);

    size_t size() const { return places_.size(); }
    uint32_t place(size_t i) const { return places_[i]; }
    const CallSignature& operator[](size_t i) const { return history_[places_[i]]; }
    // The index of the call at that place of the history.
    std::optional<size_t> find(uint32_t place) const;
    // The earlier call in the place of this one, or of the next one after the newest.
    std::optional<size_t> usual(size_t i) const;
    // The edit at this call; none where nothing clearly different is expected. A call that was made there again since
    // has become usual.
    std::optional<Edit> edit_at(size_t i) const;

  private:
    size_t equal_before(size_t a, size_t b) const;
    bool may_go_back_further(size_t candidate, size_t i, size_t length) const;

    const History& history_;
    std::vector<uint32_t> places_;
    std::vector<uint32_t> tokens_;  // equal where the calls are
};

// The edit at that place of its history, by what the thread did before that made the call there; none where the call is
// not in the history.
std::optional<Edit> own_edit(const Process& process, uint32_t place);
// The earlier call in the place of the process's next one. Null if that tells nothing.
const CallSignature* expected_next(const Process& process);
// The edit of a member whose collective at `sequence` differs from that of another. One call that is missing, or one
// too many, explains a whole shifted sequence; one that was changed leaves the rest in step.
Edit edit_beside(const Run& run, MemberRef suspect, MemberRef reference, uint64_t sequence);
// The step of a member's collective, -1 unknown.
int32_t step_at(const Process& process, const Member& member, uint64_t sequence);

// The edits of ranks whose calls differ from those of all ranks with the same role, which agree with each other: the
// first of each. They are found when first asked for: most runs do not need them. Not for several threads.
class SiblingEdits {
  public:
    explicit SiblingEdits(const Run& run) : run_(run) {}
    const std::vector<Edit>& all() const;
    const Edit* of(uint32_t process) const;  // null: it has none
    // The edits of these ranks (global).
    std::vector<const Edit*> among(const std::vector<int>& ranks) const;

  private:
    const Run& run_;
    mutable std::optional<std::vector<Edit>> all_;
};

// The edit of the only one among `ranks` (global) that has one in its calls on these communicators, by what it did
// before; none where several or none have. Siblings of the communicators count as the same.
std::optional<Edit> only_edit_of_own_past(const Run& run, const std::vector<int>& ranks,
                                          const std::vector<uint32_t>& communicators);

}  // namespace titan::analyzer
