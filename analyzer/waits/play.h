// The play: what ends if the calls that ranks made run as CUDA and NCCL let them, none taking any time. A pure function
// of a score, which is made of the calls of a run, as they are or edited. What is left over waits for something that
// never comes.
//
// The rules, all of them here and in play.cpp:
//  - A stream runs in order, and goes on behind cudaStreamWaitEvent when all that was ahead of the record of that event
//    has ended (CUDA C++ Programming Guide, "Streams" and "Events").
//  - NCCL runs the collectives of one communicator in the order in which a rank made them, whatever their streams.
//  - The calls of one group start and end together, and none starts before ncclGroupEnd; in a group, a send and a
//    receive never wait for each other (NCCL user guide, "Group Calls" and "Point-to-point communication"). Of a graph
//    launch only the end of all is seen: its calls are one group.
//  - A collective ends when all members are there, and agree. A rooted one may end earlier on some; what did, is done.
//  - A send and its receive end together: both block the GPU (NCCL user guide, "Point To Point Communication
//    Functions"). NCCL's buffers may take a small send before its receive is there; then the record shows it done, and
//    the receive finds it. Nothing tells that they will take one that has not ended, so the play does not assume it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "run.h"
#include "stream_order.h"

namespace titan::analyzer {

// A change to the calls that a rank made.
struct CallEdit {
    enum class Kind : uint8_t {
        kInsert,  // it makes this call, too: its later ones there have the next number
        kRemove,  // it does not make it: its later ones there have the number before
        kAlive,   // nothing keeps it: it makes what others wait for
    };
    Kind kind{};
    int rank = -1;  // global
    uint32_t communicator = kNoIndex;
    uint64_t sequence = 0;  // of the calls as they are then; of a removed one, as they are recorded
    OpKind op{};
    int source = -1;  // of a send or receive, communicator ranks
    int target = -1;
    bool operator==(const CallEdit&) const = default;
};

// The numbers of a rank's calls after edits.
class EditedNumbers {
  public:
    EditedNumbers() = default;
    EditedNumbers(const Run& run, const std::vector<CallEdit>& edits);

    // One numbering of a member: its collectives, or what it sends to a peer or receives from it.
    struct Line {
        MemberRef member;
        OpKind half{};  // kSend, kRecv, or nothing: collectives
        int peer = -1;
        bool operator==(const Line&) const = default;
    };
    static Line line_of(MemberRef member, const Entry& entry);
    static Line line_of(MemberRef member, const CallEdit& edit);

    bool edits(const Line& line) const { return find(line) != nullptr; }
    // kNoSequence: it was removed.
    uint64_t number(const Line& line, uint64_t recorded) const;
    // How many it has made then, of so many.
    uint64_t made(const Line& line, uint64_t recorded) const;

  private:
    struct Changes {
        Line line;
        std::vector<uint64_t> removed, inserted;  // sorted
    };
    const Changes* find(const Line& line) const;
    Changes& changes_of(const Line& line);

    std::vector<Changes> changes_;
};

// The member of a communicator that is this global rank; row and process are kNoIndex where it left no record.
MemberRef member_of_rank(const Run& run, uint32_t communicator, int rank);
// Its rank there, -1: it is no member.
int comm_rank_of(const Run& run, uint32_t communicator, int rank);

// Calls that start and end together: one call, the calls of one group, those of one graph launch. Also what is no
// recorded call and meets others: an inserted one, a creation, a rank that will come.
struct Unit {
    uint32_t process = kNoIndex;
    std::vector<uint32_t> entries;    // of the process
    std::vector<uint32_t> followers;  // units that start when this one has ended
    std::vector<uint32_t> meetings;
    size_t ahead = 0;         // units that it follows
    bool may_start = true;    // false: something that is no call keeps it from starting
    bool may_end = true;      // likewise
    bool unlaunched = false;  // its group is not ended
};

// Communicator, sequence, source, target; the last two are -1 in a collective.
using MeetingKey = std::tuple<uint32_t, uint64_t, int, int>;

// The numbering of the member that a call there is in.
EditedNumbers::Line line_in(const Run& run, MemberRef member, const MeetingKey& key);
// How many calls of that line the member has made, as recorded; none: nobody counted them.
std::optional<uint64_t> calls_made(const Run& run, const EditedNumbers::Line& line);

// One call with all its sides.
struct Meeting {
    MeetingKey key;
    std::vector<uint32_t> units;
    std::vector<const Entry*> entries;
    bool is_refused = false;  // it never ends: its sides disagree, or one never comes
};

// What is played.
class Score {
  public:
    // `as_seen`: what a GPU is seen to be in has not ended, and what it is seen not to have come to has not started.
    // Otherwise they may from now on.
    Score(const Run& run, bool as_seen, EditedNumbers numbers = {})
        : run_(run), as_seen_(as_seen), numbers_(std::move(numbers)) {}

    // The calls of a process that are not done, of its first `most` entries. Index of `progress`: entry.
    void add_calls(uint32_t process, const std::vector<Progress>& progress, size_t most = SIZE_MAX);
    uint32_t add_unit(uint32_t process);
    void follow(uint32_t unit, uint32_t earlier);
    void join(uint32_t unit, const MeetingKey& key, const Entry* entry = nullptr);

    const EditedNumbers& numbers() const { return numbers_; }

    std::vector<Unit> units;
    std::vector<Meeting> meetings;

  private:
    void add_entry(uint32_t unit, uint32_t process, uint32_t index, uint64_t number, Progress progress);

    const Run& run_;
    bool as_seen_;
    EditedNumbers numbers_;
    std::map<MeetingKey, uint32_t> index_;
};

// Do a send and a receive pass as many bytes? What is lost agrees with everything.
bool pair_agrees(const Entry& one, const Entry& other);

struct Played {
    std::vector<bool> started;  // index: unit
    std::vector<bool> met;      // index: unit; it started, and so did all other sides
    std::vector<bool> ended;
};

// Linear in the units, what they follow, and their meetings.
Played play(const Score& score);

}  // namespace titan::analyzer
