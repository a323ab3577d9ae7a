// A rank waits in a call whose entry is overwritten: another thread went on and filled the ring. The communicators'
// counters still tell which call it is, and who has not made as many.
#include "finders.h"

#include <algorithm>

#include "causes.h"
#include "host/words.h"
#include "host_threads.h"
#include "run_text.h"
#include "skipped_call.h"

namespace titan::analyzer {
namespace {

// For how long its watchdog saw the process wait, 0 if it does not.
int64_t waits_for_ns(const Process& process) {
    const ThreadState* const thread = most_informative_thread_state(process);
    const bool waits = thread != nullptr && thread->call != 0 && called_a_hang(process) && !process.is_gone();
    return waits ? process.now_ns - thread->entered_ns : 0;
}

std::vector<int> ranks_behind(const Run& run, const Member& waiting) {
    std::vector<int> ranks;
    for (const MemberRef ref : run.communicators[waiting.communicator].members) {
        if (run.member(ref).issued <= waiting.finished) {
            ranks.push_back(run.member(ref).global_rank);
        }
    }
    sort_unique(ranks);
    return ranks;
}

Finding finding_of(const Run& run, const Process& process, const Member& member, int64_t waited_ns) {
    Finding finding;
    finding.communicator = member.communicator;
    finding.sequence = member.finished;
    finding.ranks = ranks_behind(run, member);
    finding.victims = {process.rank};
    finding.waited_ns = waited_ns;
    finding.since_ns = process.now_ns - waited_ns;
    const auto place = phrase("call #{} on {}", member.finished, communicator_fact(run, member.communicator));
    if (finding.ranks.empty()) {
        finding.kind = FindingKind::kStuckInFlight;
        finding.confidence = Confidence::kPossible;
        finding.ranks = {process.rank};
        finding.victims.clear();
        finding.summary = phrase(
            "{} waits for {}, most likely in {}, whose entry is overwritten: why it does not end is not recorded",
            rank_fact(process.rank), duration_fact(waited_ns), place);
    } else {
        finding.kind = FindingKind::kRankNotArrived;
        finding.confidence = Confidence::kLikely;
        finding.summary = phrase("{} {} not made {}, which {} made; {} waits for {}", ranks_fact(finding.ranks),
                                 verb_form(finding.ranks.size(), "has", "have"), place, rank_fact(process.rank),
                                 rank_fact(process.rank), duration_fact(waited_ns));
    }
    finding.evidence.push_back(
        phrase("{} made {} calls on {} and saw {} of them end; the entries of the others are overwritten",
               rank_fact(process.rank), member.issued, communicator_fact(run, member.communicator), member.finished));
    finding.would_confirm.emplace_back("a larger TITANTRACE_COLLECTIVES: the ring would still hold the call");
    return finding;
}

}  // namespace

void find_overwritten_waits(const Evidence& evidence, Explained& /*explained*/, std::vector<Finding>& findings) {
    if (any_hangs(findings)) {
        return;
    }
    for (const Process& process : evidence.run.processes) {
        const int64_t waited_ns = has_lost_unfinished_calls(process) ? waits_for_ns(process) : 0;
        for (const Member& member : process.members) {
            const bool lost =
                member.closed_ns == 0 && member.finished < member.issued && !member.call_log.find(member.finished);
            if (waited_ns > 0 && lost && member.communicator != kNoIndex) {
                findings.push_back(finding_of(evidence.run, process, member, waited_ns));
            }
        }
    }
}

}  // namespace titan::analyzer
