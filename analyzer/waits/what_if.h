// What would end if ranks had made other calls: the play (play.h) of what waits now, from now on. A call ends when all
// its sides are there. A host that is held in a call goes on when that has ended, and makes what others wait for.
//
// It answers what follows from an edit. It does not say who is to blame: a call that one rank left out, and one that
// all others made too many, free the same waits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "causes.h"
#include "match.h"
#include "play.h"
#include "run.h"
#include "wait_graph.h"

namespace titan::analyzer {

// Why a call still does not end.
enum class WhyNot : uint8_t {
    kMissing,   // members are not there
    kDisagree,  // all are there, with arguments that do not agree
    kElse,      // all are there and agree: no call keeps it
};

// A wait after the edits.
struct WaitThen {
    std::optional<uint32_t> node;  // of the graph; none: it begins with the edits
    uint32_t communicator = kNoIndex;
    uint64_t sequence = 0;
    OpKind op{};
    int source = -1;  // of a send or receive, communicator ranks
    int target = -1;
    std::vector<int> ranks;    // who waits
    std::vector<int> missing;  // for whom
    WhyNot why{};
};

struct WhatIf {
    std::vector<bool> ends;       // index: node of the graph
    std::vector<WaitThen> waits;  // those that remain, and those that begin
};

// How far the calls are played.
enum class Scope : uint8_t {
    kWaits,  // up to what the graph has: what waits now. Ranks may have made many calls behind it
    kAll,    // also what begins to wait then
};

// What all questions about a run share. Keeps references.
struct WhatIfBasis {
    const Run& run;
    const WaitGraph& graph;
    const std::vector<Hang>& hang_of;  // index: node
    std::set<MeetingKey> refused{};
    std::map<MeetingKey, uint32_t> node_of{};
    // Index: node. All are there and agree, and it hangs all the same: only who takes part in it can let it end.
    std::vector<bool> is_stuck{};
    std::vector<size_t> most_entries{};  // index: process; those that are played
};

class WhatIfs {
  public:
    WhatIfs(const Run& run, const std::vector<Mismatch>& mismatches, const WaitGraph& graph,
            const std::vector<Hang>& hang_of, Scope scope);

    WhatIf ask(const std::vector<CallEdit>& edits) const;

  private:
    WhatIfBasis basis_;
};

}  // namespace titan::analyzer
