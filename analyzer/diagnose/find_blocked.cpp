// Finds calls that were issued but that the GPU never reached: the work ahead of them on their stream is the cause.
#include "finders.h"

#include <algorithm>
#include <map>

#include "blocked_causes.h"

namespace titan::analyzer {
namespace {

bool may_follow_another_hang(const Evidence& evidence, uint32_t index) {
    const std::vector<bool> behind = may_be_behind(evidence.graph, index);
    for (uint32_t node = 0; node < behind.size(); ++node) {
        if (behind[node] && node != index && evidence.hangs(node)) {
            return true;
        }
    }
    return false;
}

}  // namespace

// Streams with recorded work ahead of their call, that wait for nothing else. Where the waits between streams are not
// recorded, the block may follow from another hang: that is for find_stuck() to tell.
void find_blocked(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    BlockedCauses causes;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const std::vector<Blocked>& blocked = evidence.graph.nodes[index].blocked;
        const bool by_work = std::any_of(blocked.begin(), blocked.end(), [](const Blocked& member) {
            return member.held_by.empty() && !member.ahead.work.empty() && !member.ahead.implicit;
        });
        if (by_work && is_blocked_there(evidence, explained, index) && !may_follow_another_hang(evidence, index)) {
            note_blocked(evidence, index, causes);
        }
    }
    report_blocked(evidence, explained, findings, causes);
}

}  // namespace titan::analyzer
