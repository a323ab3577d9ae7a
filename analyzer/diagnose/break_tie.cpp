#include "break_tie.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "expected.h"
#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

// "send", or "send to rank 3" where the peer is the difference.
std::string call_with_peer(const Run& run, const Process& process, const CallSignature& call, bool tells_peer) {
    const uint32_t communicator = call.row == kNoIndex ? kNoIndex : process.members[call.row].communicator;
    const bool is_message = format::class_of(call.kind) == format::OpClass::p2p && communicator != kNoIndex;
    const int peer = tells_peer && is_message ? run.global_rank(run.communicators[communicator], call.peer) : -1;
    return peer < 0
               ? op_text(call.kind)
               : fmt::format("{} {} rank {}", op_text(call.kind), call.kind == OpKind::kSend ? "to" : "from", peer);
}

}  // namespace

Sentence edit_fact(const Run& run, const Edit& edit) {
    const Process& process = run.processes[edit.process];
    const bool same_op = process.history[edit.place].kind == edit.instead.front().kind;
    const std::string made = call_with_peer(run, process, process.history[edit.place], same_op);
    const std::string expected = call_with_peer(run, process, edit.instead.front(), same_op);
    const auto did = [&]() {
        switch (edit.or_extra ? EditKind::kChanged : edit.kind) {
            case EditKind::kMissing: return fmt::format("left out {} and called {}", expected, made);
            case EditKind::kExtra: return fmt::format("called {} in addition", made);
            case EditKind::kSwapped: return fmt::format("called {} before {}", made, expected);
            case EditKind::kChanged: break;
        }
        return edit.siblings.empty() ? fmt::format("called {}", made)
                                     : fmt::format("called {} instead of {}", made, expected);
    };
    return edit.siblings.empty() ? phrase("{} {} where it always called {} after the same calls before",
                                          rank_fact(process.rank), did(), expected)
                                 : phrase("{} {}, unlike {}, which [plays|play] the same part", rank_fact(process.rank),
                                          did(), ranks_fact(edit.siblings));
}

bool break_tie(const Evidence& evidence, const std::vector<uint32_t>& nodes, Finding& finding) {
    // If streams are recorded, we know more than the order of calls: a certain finding needs no tie-break.
    const bool by_order_alone = std::ranges::all_of(finding.ranks, [&](int rank) {
        const Process* process = evidence.process_of_rank[rank];
        return process != nullptr && !process->sees.streams;
    });
    if (finding.ranks.size() < 2 || (!by_order_alone && finding.confidence == Confidence::kCertain)) {
        return false;
    }
    std::set<uint32_t> communicators;
    for (const uint32_t node : nodes) {
        communicators.insert(evidence.node(node).communicator);
    }
    const std::vector<const Edit*> among_them = evidence.edits.among(finding.ranks);
    const std::vector<Edit>& all = evidence.edits.all();
    const std::optional<Edit> odd =
        among_them.size() == 1 ? *among_them.front()
        : all.size() == 1      ? all.front()
        : among_them.empty()
            ? only_edit_of_own_past(evidence.run, finding.ranks, {communicators.begin(), communicators.end()})
            : std::nullopt;
    if (!odd) {
        return false;
    }
    const Process& process = evidence.run.processes[odd->process];
    const Sentence told = edit_fact(evidence.run, *odd);
    const bool is_ring = finding.kind == FindingKind::kOrderInversion || finding.kind == FindingKind::kP2pCycle;
    if (!is_ring || std::ranges::find(finding.ranks, process.rank) == finding.ranks.end()) {
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
    for (const Waiter& waiter : evidence.node(node).waiting) {
        if (!edit && waiter.member.process == process && waiter.entry != nullptr) {
            edit = own_edit(evidence.run.processes[process], waiter.entry->place);
        }
    }
    return edit;
}

}  // namespace titan::analyzer
