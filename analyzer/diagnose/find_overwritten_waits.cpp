// A rank waits in a call whose entry is overwritten: another thread went on and filled the ring. The communicators'
// counters still tell which call it is, and who has not made as many.
#include "finders.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "causes.h"
#include "host/words.h"
#include "long_waits.h"
#include "run_text.h"
#include "skipped_call.h"

namespace titan::analyzer {
namespace {

// The oldest call of the member that has not ended, if its entry is lost. Where nobody watched the GPU, one that some
// member has not made.
std::optional<uint64_t> lost_call(const Run& run, const Process& process, const Member& member) {
    if (member.closed_ns != 0 || member.communicator == kNoIndex || process.overwritten == 0) {
        return std::nullopt;
    }
    const uint64_t oldest =
        has_lost_unfinished_calls(process) ? member.finished : run.communicators[member.communicator].least_issued;
    const bool lost = oldest < member.issued && !member.call_log.find(oldest);
    return lost ? std::optional(oldest) : std::nullopt;
}

std::vector<int> ranks_where(const Run& run, uint32_t communicator, uint64_t sequence, bool made) {
    std::vector<int> ranks;
    for (const MemberRef ref : run.communicators[communicator].members) {
        if ((run.member(ref).issued > sequence) == made) {
            ranks.push_back(run.member(ref).global_rank);
        }
    }
    sort_unique(ranks);
    return ranks;
}

Finding finding_of(const Run& run, const Process& process, const Member& member, uint64_t sequence, int64_t waited_ns) {
    Finding finding;
    finding.communicator = member.communicator;
    finding.sequence = sequence;
    finding.ranks = ranks_where(run, member.communicator, sequence, false);
    finding.victims = ranks_where(run, member.communicator, sequence, true);
    finding.waited_ns = waited_ns;
    finding.since_ns = process.now_ns - waited_ns;
    const auto place = phrase("call #{} on {}", sequence, communicator_fact(run, member.communicator));
    if (finding.ranks.empty()) {
        finding.kind = FindingKind::kStuckInFlight;
        finding.ranks.swap(finding.victims);
        finding.summary = phrase(
            "{}, all members, made {}, whose entries are overwritten, and {} waits for {}, most likely there: why it "
            "does not end is not recorded",
            ranks_fact(finding.ranks), place, rank_fact(process.rank), duration_fact(waited_ns));
    } else {
        finding.kind = FindingKind::kRankNotArrived;
        finding.summary = phrase("{} {} not made {}, which {} made; {} waits for {}", ranks_fact(finding.ranks),
                                 verb_form(finding.ranks.size(), "has", "have"), place, ranks_fact(finding.victims),
                                 rank_fact(process.rank), duration_fact(waited_ns));
    }
    if (has_lost_unfinished_calls(process)) {
        finding.evidence.push_back(
            phrase("{} made {} calls on {} and saw {} of them end; the entries of the others are overwritten",
                   rank_fact(process.rank), member.issued, communicator_fact(run, member.communicator), sequence));
    } else {
        finding.evidence.push_back(
            phrase("{} made {} calls on {}, {} made {}; the entry of the last is overwritten", rank_fact(process.rank),
                   member.issued, communicator_fact(run, member.communicator), ranks_fact(finding.ranks), sequence));
    }
    finding.depends_on("a larger TITANTRACE_COLLECTIVES: the ring would still hold the call",
                       finding.kind == FindingKind::kStuckInFlight ? Confidence::kPossible : Confidence::kLikely);
    return finding;
}

}  // namespace

void find_overwritten_waits(const Evidence& evidence, Explained& /*explained*/, std::vector<Finding>& findings) {
    if (any_hangs(findings)) {
        return;
    }
    const bool others_hang =
        std::any_of(evidence.hang_of.begin(), evidence.hang_of.end(), [](Hang hang) { return hang != Hang::kNone; });
    std::set<std::pair<uint32_t, uint64_t>> told;
    for (const Process& process : evidence.run.processes) {
        const int64_t waited_ns = hangs_for_ns(evidence.run, process);
        for (const Member& member : process.members) {
            const auto lost = waited_ns > 0 ? lost_call(evidence.run, process, member) : std::nullopt;
            // Where all made it, a wait that is on record tells more.
            const bool tells =
                lost && (!others_hang || !ranks_where(evidence.run, member.communicator, *lost, false).empty());
            if (tells && told.insert({member.communicator, *lost}).second) {
                findings.push_back(finding_of(evidence.run, process, member, *lost, waited_ns));
            }
        }
    }
}

}  // namespace titan::analyzer
