#include "break_tie.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "expected.h"
#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

// "send", or "send to rank 3" where the peer is the difference; of another rank "send (rank 1 to rank 2)".
std::string call_with_peer(const Run& run, const Process& process, const CallSignature& call, bool tells_peer,
                           bool is_sibling) {
    const uint32_t communicator = call.row == kNoIndex ? kNoIndex : process.members[call.row].communicator;
    const bool is_message = format::class_of(call.kind) == format::OpClass::p2p && communicator != kNoIndex;
    const int peer = tells_peer && is_message ? run.global_rank(run.communicators[communicator], call.peer) : -1;
    const std::string path = fmt::format("{} rank {}", call.kind == OpKind::kSend ? "to" : "from", peer);
    return peer < 0     ? op_text(call.kind)
           : is_sibling ? fmt::format("{} (rank {} {})", op_text(call.kind), process.rank, path)
                        : fmt::format("{} {}", op_text(call.kind), path);
}

}  // namespace

bool break_tie(const Evidence& evidence, const std::vector<uint32_t>& nodes, Finding& finding) {
    // If streams are recorded, we know more than the order of calls: a certain finding needs no tie-break.
    const bool by_order_alone = std::all_of(finding.ranks.begin(), finding.ranks.end(), [&](int rank) {
        const Process* process = evidence.process_of_rank[rank];
        return process != nullptr && !process->sees.streams;
    });
    if (finding.ranks.size() < 2 || (!by_order_alone && finding.confidence == Confidence::kCertain)) {
        return false;
    }
    std::set<uint32_t> communicators;
    for (const uint32_t node : nodes) {
        communicators.insert(evidence.graph.nodes[node].communicator);
    }
    const std::optional<Edit> odd =
        evidence.edits.size() == 1
            ? evidence.edits.front()
            : only_edit_of_own_past(evidence.run, finding.ranks, {communicators.begin(), communicators.end()});
    if (!odd) {
        return false;
    }
    const Process& process = evidence.run.processes[odd->process];
    const Process& like = odd->siblings.empty() ? process : *evidence.process_of_rank[odd->siblings.front()];
    const bool same_op = process.history[odd->place].kind == odd->instead.front().kind;
    const std::string made = call_with_peer(evidence.run, process, process.history[odd->place], same_op, false);
    const std::string expected =
        call_with_peer(evidence.run, like, odd->instead.front(), same_op, !odd->siblings.empty());
    const auto did = [&]() {
        switch (odd->or_extra ? EditKind::kChanged : odd->kind) {
            case EditKind::kMissing: return fmt::format("left out {} and called {}", expected, made);
            case EditKind::kExtra: return fmt::format("called {} in addition", made);
            case EditKind::kSwapped: return fmt::format("called {} before {}", made, expected);
            case EditKind::kChanged: break;
        }
        return fmt::format("called {}", made);
    };
    const Sentence told = odd->siblings.empty() ? phrase("{} {} where it always called {} after the same calls before",
                                                         rank_fact(process.rank), did(), expected)
                                                : phrase("{} {} where {}, which {} the same part, called {}",
                                                         rank_fact(process.rank), did(), ranks_fact(odd->siblings),
                                                         verb_form(odd->siblings.size(), "plays", "play"), expected);
    const bool is_ring = finding.kind == FindingKind::kOrderInversion || finding.kind == FindingKind::kP2pCycle;
    if (!is_ring || std::find(finding.ranks.begin(), finding.ranks.end(), process.rank) == finding.ranks.end()) {
        finding.summary = phrase("{}; {}", told, finding.summary);
    } else {
        finding.evidence.push_back(told);
    }
    finding.ranks = {process.rank};
    finding.confidence =
        std::min(finding.confidence, odd->siblings.empty() ? Confidence::kPossible : Confidence::kLikely);
    return true;
}

std::optional<Edit> edit_in(const Evidence& evidence, uint32_t node, uint32_t process) {
    std::optional<Edit> edit;
    for (const Waiter& waiter : evidence.graph.nodes[node].waiting) {
        if (!edit && waiter.member.process == process && waiter.entry != nullptr) {
            edit = own_edit(evidence.run.processes[process], waiter.entry->place);
        }
    }
    return edit;
}

}  // namespace titan::analyzer
