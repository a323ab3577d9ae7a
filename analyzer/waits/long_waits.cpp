#include "long_waits.h"

#include <algorithm>
#include <optional>

#include "causes.h"
#include "host_calls.h"
#include "host_threads.h"
#include "skipped_call.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kLeastNs = 1'000'000'000;  // where no timeout is recorded

// The calls of a thread may all be overwritten, so that nothing but its wait shows that it makes any. PyTorch's
// watchdog makes none, and only polls.
bool may_wait_for_a_call(const Process& process, const ThreadState& thread) {
    const HostCall call(process.text(thread.call));
    const std::vector<const ThreadState*> issuing = issuing_threads(process);
    const bool issues = std::ranges::find(issuing, &thread) != issuing.end();
    return issues ? call.is_nccl() || call.waits_for_gpu() : call.waits_for_gpu() && !call.polls();
}

// A send or receive that an idle peer has not met.
std::optional<LostCall> lost_half(const Run& run, MemberRef ref) {
    const Member& member = run.member(ref);
    for (const MemberRef peer : run.communicators[member.communicator].members) {
        const Member& other = run.member(peer);
        if (peer == ref || !member.p2p_counted || !other.p2p_counted || is_inside_a_call(run.process(peer))) {
            continue;
        }
        const uint64_t received = other.received_from(member.rank);
        const uint64_t sent = other.sent_to(member.rank);
        if (sent < member.received_from(other.rank)) {
            return LostCall{ref.row, sent, OpKind::kRecv, other.rank, true};
        }
        if (received < member.sent_to(other.rank)) {
            return LostCall{ref.row, received, OpKind::kSend, other.rank, true};
        }
    }
    return std::nullopt;
}

// The oldest collective of the member that has not ended. Where nobody watched the GPU, one that some member has not
// made.
std::optional<LostCall> lost_collective(const Run& run, MemberRef ref) {
    const Member& member = run.member(ref);
    const Communicator& communicator = run.communicators[member.communicator];
    LostCall lost{ref.row, 0, OpKind::kOtherCollective};
    lost.sequence = has_lost_unfinished_calls(run.process(ref)) ? member.finished : communicator.least_issued;
    if (lost.sequence >= member.issued || member.call_log.find(lost.sequence)) {
        return std::nullopt;
    }
    for (const MemberRef other : communicator.members) {
        const CallSignature* const call = run.process(other).signature_at(run.member(other), lost.sequence);
        lost.op = call != nullptr ? call->kind : lost.op;
        lost.is_owed |= run.member(other).issued <= lost.sequence;
    }
    return lost;
}

}  // namespace

int64_t hangs_for_ns(const Run& run, const Process& process) {
    int64_t longest_ns = 0;
    for (const ThreadState& thread : process.threads) {
        if (thread.call != 0 && may_wait_for_a_call(process, thread)) {
            longest_ns = std::max(longest_ns, process.now_ns - thread.entered_ns);
        }
    }
    const int64_t least_ns = process.timeout_ns != 0 ? nearly_its_timeout_ns(process) : kLeastNs;
    const bool hangs = longest_ns >= least_ns && std::ranges::any_of(run.processes, called_a_hang);
    return hangs && !process.is_gone() ? longest_ns : 0;
}

std::vector<LostCall> lost_calls(const Run& run, uint32_t index, bool pairs) {
    const Process& process = run.processes[index];
    std::vector<LostCall> lost;
    if (process.overwritten == 0 || hangs_for_ns(run, process) == 0) {
        return lost;
    }
    for (uint32_t row = 0; row < process.members.size(); ++row) {
        if (process.members[row].closed_ns != 0 || process.members[row].communicator == kNoIndex) {
            continue;
        }
        if (const auto half = pairs ? lost_half(run, {index, row}) : std::nullopt) {
            return {*half};
        }
        if (const auto call = lost_collective(run, {index, row})) {
            lost.push_back(*call);
        }
    }
    return lost;
}

}  // namespace titan::analyzer
