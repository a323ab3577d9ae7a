// Where nobody saw the GPU, the call that hangs is inferred from the hosts, and the cause may be ahead of it on the streams:
// a mismatch that is not known to be survived, or work that one rank alone handed over.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "diagnoser.h"
#include "doubts.h"

namespace titan::analyzer {
namespace {

using PieceName = std::pair<WorkKind, std::string>;

PieceName name_of_piece(const Process& process, const StreamWork& work) { return {work.kind, process.text(work.name)}; }

// Everything that the process handed over is on record.
bool sees_all_work(const Process& process) {
    const StreamSight& sight = process.sight;
    return sight.recorded == 0 ? sight.launches == 0 : !sight.sampled && !sight.cut && sight.torn == 0;
}

std::vector<uint32_t> work_ahead(const WaitGraph& graph, const Process& process, uint32_t index, const Waiter& waiter) {
    const QueueReader queues(process, graph.orders[index]);
    return queues.ahead_of(static_cast<uint32_t>(waiter.entry - process.entries.data())).work;
}

// Where nobody watches the GPU, an end is known only by a host that waited for the stream and came back. Was that seen of a
// call before this one?
bool ends_are_known(const Process& process, const Member& member, const StreamOrder& order, uint64_t sequence) {
    while (sequence-- > 0) {
        const Entry* entry = process.call_at(member, sequence);
        if (entry == nullptr) {
            return member.past.find(sequence).has_value();  // condensed: those that are not done have their entry
        }
        if (order.progress[static_cast<size_t>(entry - process.entries.data())] == Progress::kDone) {
            return true;
        }
    }
    return false;
}

}  // namespace

// Is the call of the mismatch ahead of the waiter's on its stream, and not known to have ended?
bool Diagnoser::is_behind(const Waiter& waiter, const Mismatch& mismatch) const {
    const Process& process = run_.process(waiter.member);
    for (const Member& member : process.members) {
        const Entry* entry =
            member.communicator == mismatch.communicator ? process.call_at(member, mismatch.sequence) : nullptr;
        if (entry == nullptr || waiter.entry == nullptr || entry >= waiter.entry ||
            entry->stream != waiter.entry->stream) {
            continue;
        }
        const auto index = static_cast<size_t>(entry - process.entries.data());
        const StreamOrder& order = graph_.orders[waiter.member.process];
        const bool same_step = entry->step >= 0 && entry->step == waiter.entry->step;
        return order.progress[index] == Progress::kUnknown &&
               (same_step || ends_are_known(process, member, order, mismatch.sequence));
    }
    return false;
}

void Diagnoser::lead_with_mismatches_ahead() {
    for (size_t i = 0; i < mismatches_.size(); ++i) {
        Finding& finding = diagnosis_.findings[i];
        if (finding.hangs || finding.confidence == Confidence::kPossible) {
            continue;
        }
        std::vector<uint32_t> nodes;
        for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
            const WaitNode& node = graph_.nodes[index];
            if (hangs(index) && !explained_[index] && node.device_unknown && node.absent.empty() &&
                std::any_of(node.waiting.begin(), node.waiting.end(),
                            [&](const Waiter& waiter) { return is_behind(waiter, mismatches_[i]); })) {
                nodes.push_back(index);
            }
        }
        if (nodes.empty()) {
            continue;
        }
        finding.hangs = true;
        finding.evidence.pop_back();  // that nobody hangs in it
        finding.evidence.emplace_back(
            "it is ahead on the streams of those that wait, and nobody saw whether the GPUs came past it");
        for (const uint32_t node : nodes) {
            explained_[node] = true;
            finding.evidence.push_back(waiting_text(run_, graph_.nodes[node]));
        }
        add_victims(nodes, finding);
    }
}

// The only waiter that has work ahead of the call the like of which neither it nor any other member is known to have run or
// has ahead. Null where nobody or more than one has.
const Waiter* Diagnoser::find_odd_work(const WaitNode& node, std::vector<uint32_t>& odd) const {
    constexpr size_t kLeastMembers = 3;
    constexpr size_t kMostMembers = 64;
    if (node.waiting.size() < kLeastMembers || node.waiting.size() > kMostMembers) {
        return nullptr;
    }
    std::map<PieceName, std::set<const Waiter*>> who;
    std::map<const Waiter*, std::vector<uint32_t>> ahead;
    for (const Waiter& waiter : node.waiting) {
        const Process& process = run_.process(waiter.member);
        if (waiter.entry == nullptr || !sees_all_work(process)) {
            return nullptr;
        }
        ahead[&waiter] = work_ahead(graph_, process, waiter.member.process, waiter);
        for (const uint32_t index : ahead[&waiter]) {
            who[name_of_piece(process, process.work[index])].insert(&waiter);
        }
    }
    const auto has_run = [&](const std::string& name) {
        return std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
            const Process& process = run_.process(waiter.member);
            return std::any_of(process.work_done.begin(), process.work_done.end(),
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
        const Process& process = run_.process(only->member);
        std::copy_if(ahead[only].begin(), ahead[only].end(), std::back_inserter(odd),
                     [&](uint32_t index) { return name_of_piece(process, process.work[index]) == name; });
    }
    std::sort(odd.begin(), odd.end());
    return only;
}

void Diagnoser::add_odd_work() {
    const bool unseen =
        std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const WaitNode& node) { return node.device_unknown; });
    for (const uint32_t index : unseen ? find_stuck() : std::vector<uint32_t>{}) {
        const WaitNode& node = graph_.nodes[index];
        std::vector<uint32_t> odd;
        const Waiter* waiter = node.device_unknown && all_arrived(index) ? find_odd_work(node, odd) : nullptr;
        if (waiter == nullptr) {
            continue;
        }
        const Process& process = run_.process(waiter->member);
        const int rank = run_.member(waiter->member).global_rank;
        Finding finding = finding_at(FindingKind::kGpuQueueBlocked, index);
        finding.ranks = {rank};
        finding.confidence = Confidence::kPossible;
        finding.summary =
            fmt::format("{} does not finish, and rank {} alone handed {} to its stream ahead of it, which may not end",
                        node_text(run_, node), rank, work_text(process, process.work[odd.front()]));
        finding.evidence.push_back(waiting_text(run_, node));
        constexpr size_t kShownOdd = 4;
        for (size_t i = 0; i < std::min(kShownOdd, odd.size()); ++i) {
            finding.evidence.push_back(
                fmt::format("rank {}: ahead of it: {}", rank, work_details(process, process.work[odd[i]])));
        }
        finding.evidence.push_back(fmt::format(
            "the other {} members handed nothing like it to their streams, and nobody is known to have run it before",
            node.waiting.size() - 1));
        finding.to_be_sure.emplace_back(
            "TITANTRACE_GPU_PROGRESS=writes: nobody saw how far the streams are, the call itself may be what hangs");
        is_cause_[index] = true;
        add_victims({index}, finding);
        diagnosis_.findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
