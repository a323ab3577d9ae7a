// A possible cause where nobody saw the GPU: work that one rank alone handed to its stream ahead of the call that all
// wait in.
#include "finders.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "explain.h"
#include "queue_ahead.h"
#include "stuck_nodes.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

using PieceName = std::pair<WorkKind, std::string>;

PieceName name_of_piece(const Process& process, const StreamWork& work) { return {work.kind, process.text(work.name)}; }

// Everything that the process handed over is on record.
bool sees_all_work(const Process& process) {
    const StreamCoverage& coverage = process.streams_seen;
    return coverage.recorded == 0 ? coverage.launches == 0 : !coverage.sampled && !coverage.cut && coverage.torn == 0;
}

std::vector<uint32_t> work_ahead(const WaitGraph& graph, const Process& process, uint32_t index, const Waiter& waiter) {
    const QueueReader queues(process, graph.orders[index]);
    return queues.ahead_of(static_cast<uint32_t>(waiter.entry - process.entries.data())).work;
}

// The only waiter with a kind of work ahead of the call that no member, itself included, is known to have run before
// and no other has ahead. Null if there is none or more than one.
const Waiter* only_odd_work(const Evidence& evidence, const WaitNode& node, std::vector<uint32_t>& odd) {
    constexpr size_t kLeastMembers = 3;
    constexpr size_t kMostMembers = 64;
    if (node.waiting.size() < kLeastMembers || node.waiting.size() > kMostMembers) {
        return nullptr;
    }
    std::map<PieceName, std::set<const Waiter*>> who;
    std::map<const Waiter*, std::vector<uint32_t>> ahead;
    for (const Waiter& waiter : node.waiting) {
        const Process& process = evidence.run.process(waiter.member);
        if (waiter.entry == nullptr || !sees_all_work(process)) {
            return nullptr;
        }
        ahead[&waiter] = work_ahead(evidence.graph, process, waiter.member.process, waiter);
        for (const uint32_t index : ahead[&waiter]) {
            who[name_of_piece(process, process.work[index])].insert(&waiter);
        }
    }
    const auto has_run = [&](const std::string& name) {
        return std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
            const Process& process = evidence.run.process(waiter.member);
            return std::ranges::any_of(process.work_done,
                                       [&](const auto& done) { return process.text(done.first) == name; });
        });
    };
    const Waiter* only = nullptr;
    for (const auto& [name, waiters] : who) {
        if (waiters.size() != 1 || has_run(name.second)) {
            continue;
        }
        if (only != nullptr && only != *waiters.begin()) {
            return nullptr;
        }
        only = *waiters.begin();
        const Process& process = evidence.run.process(only->member);
        std::ranges::copy_if(ahead[only], std::back_inserter(odd),
                             [&](uint32_t index) { return name_of_piece(process, process.work[index]) == name; });
    }
    std::ranges::sort(odd);
    return only;
}

}  // namespace

void find_odd_work(const Evidence& evidence, ToldSoFar& told) {
    const bool unseen =
        std::ranges::any_of(evidence.graph.nodes, [](const WaitNode& node) { return node.device_unknown; });
    for (const uint32_t index : unseen ? first_stuck_nodes(evidence, told) : std::vector<uint32_t>{}) {
        const WaitNode& node = evidence.node(index);
        std::vector<uint32_t> odd;
        const Waiter* waiter =
            node.device_unknown && all_arrived(evidence, told, index) ? only_odd_work(evidence, node, odd) : nullptr;
        if (waiter == nullptr) {
            continue;
        }
        const Process& process = evidence.run.process(waiter->member);
        const int rank = evidence.rank_of(waiter->member);
        Finding finding = evidence.finding_at(FindingKind::kGpuQueueBlocked, index);
        finding.ranks = {rank};
        finding.summary =
            phrase("{} does not finish, and {} alone handed {} to its stream ahead of it, which may not end",
                   node_fact(evidence.run, node), rank_fact(rank), work_text(process, process.work[odd.front()]));
        evidence.show_waits({index}, finding);
        constexpr size_t kShownOdd = 4;
        for (size_t i = 0; i < std::min(kShownOdd, odd.size()); ++i) {
            finding.evidence.push_back(
                phrase("{}: ahead of it: {}", rank_fact(rank), work_details(process, process.work[odd[i]])));
        }
        finding.evidence.push_back(phrase(
            "the other {} members handed nothing like it to their streams, and no rank is known to have run it before",
            node.waiting.size() - 1));
        depends_on(finding, Unknown::kStreamsUnseen);
        told.add_cause(std::move(finding), {index});
    }
}

}  // namespace titan::analyzer
