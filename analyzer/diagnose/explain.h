// Words for causes: summary and evidence of a finding, from the nodes of the wait-for graph that it explains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "finding.h"
#include "sentence.h"
#include "wait_graph.h"

namespace titan::analyzer {

// Members that are missing in a node for one and the same reason.
struct Culprits {
    std::vector<Absence> absences;
    const WaitNode* node = nullptr;  // the one that is waited in for longest
};

// "all_reduce #41 on dp:0", "recv #5 from rank 2 to rank 3 on pp:0", "the creation of dp:0".
Sentence node_fact(const Run& run, const WaitNode& node);
// The same for one rank: of a pair its own half, the send or the recv.
Sentence own_call_fact(const Run& run, const WaitNode& node, int rank);
Sentence waiting_fact(const Run& run, const WaitNode& node);
// "for 5.5 s". Where only a file's time of change tells when its record ended, which a copy changes: as long as the
// record itself shows, "for at least 5.5 s", or nothing.
Sentence wait_length(const Run& run, const WaitNode& node);
std::vector<int> waiting_ranks(const Run& run, const WaitNode& node);
// The ranks that are missing there, as far as their global ranks are known.
std::vector<int> absent_ranks(const WaitNode& node);
// "has not called it", "have not called it": why so many members are missing in a call.
std::string_view words_of(AbsenceReason reason, size_t members);
// Known global ranks as ranges, the rest by their rank in the communicator.
Sentence absent_fact(const std::vector<Absence>& absences);

// The piece of the work ahead of a blocked call that blocks it: the only piece, or the only one that no rank has run
// before.
struct BlockedBy {
    const StreamWork* work = nullptr;  // null: one of several, or none is recorded
    bool by_comparison = false;
};
BlockedBy find_blocker(const Run& run, const WaitNode& node, const Blocked& blocked);
// The words for it; members with the same words are named together.
std::string blocker_text(const Run& run, const Blocked& blocked, const BlockedBy& by);
void explain_blocked(const Run& run, const WaitNode& node, const std::vector<const Blocked*>& blocked,
                     Finding& finding);

// Have at least that many members started the call itself on the GPU?
bool members_started(const WaitNode& node, size_t least);
// The first whose arguments are overwritten, null when all are known.
const Waiter* waiter_with_lost_arguments(const WaitNode& node);
// Adds the progress of the members on the GPU as evidence, if it is known, and the state of NCCL's channels.
void add_device_evidence(const Run& run, const WaitNode& node, Finding& finding);

void explain_absence(const Run& run, const Culprits& culprits, Finding& finding);
void explain_stuck(const Run& run, const WaitNode& node, Finding& finding);
// "rank 3: all_reduce (...) was captured into graph 2, 3.1 s before its dump; no launch of that graph follows ...".
Sentence capture_fact(const Process& process, int rank, const Entry& capture);
void explain_capture(const Run& run, const WaitNode& node, const std::vector<Absence>& absences, Finding& finding);
// "rank 3 launched it last as its replay 11 of graph 2, 3.1 s before its dump", for a member that lags behind in
// replays.
void add_replay_evidence(const Run& run, const WaitNode& node, const Absence& absence, Finding& finding);
// The place where a rank's calls fell out of step with the others', judged by the step numbers of the calls. Empty if
// they did not.
Sentence shift_by_step_text(const Run& run, uint32_t communicator, MemberRef suspect);

}  // namespace titan::analyzer
