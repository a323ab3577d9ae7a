// Ranks that are each in the creation of another communicator, as lazily made ones of pairs are: whoever is missing in
// one is in another.
#include "finders.h"

#include <algorithm>
#include <set>

#include "explain.h"
#include "host/words.h"
#include "run_text.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// A creation that lacks members of which nothing tells who they are.
bool lacks_somebody(const WaitNode& node) {
    return node.kind == WaitKind::kCreation && node.sequence == kNoSequence &&
           std::ranges::any_of(
               node.absent, [](const Absence& absence) { return !absence.member.known() && absence.global_rank < 0; });
}

// Creations that lack somebody unknown, and those whose missing members are in one of these.
std::vector<uint32_t> creations_apart(const Evidence& evidence, const ToldSoFar& told) {
    std::vector<uint32_t> nodes;
    const auto is_known = [&](uint32_t node) { return std::ranges::find(nodes, node) != nodes.end(); };
    for (bool more = true; more;) {
        more = false;
        for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
            const WaitNode& node = evidence.node(index);
            const bool follows = std::ranges::any_of(
                node.absent, [&](const Absence& absence) { return std::ranges::any_of(absence.held_by, is_known); });
            const bool creates = node.kind == WaitKind::kCreation && node.sequence == kNoSequence;
            if (creates && !told.explained[index] && !is_known(index) && (lacks_somebody(node) || follows)) {
                nodes.push_back(index);
                more = true;
            }
        }
    }
    std::ranges::sort(nodes);
    return nodes;
}

}  // namespace

void find_creations_apart(const Evidence& evidence, ToldSoFar& told) {
    const std::vector<uint32_t> nodes = creations_apart(evidence, told);
    std::set<uint32_t> processes;
    bool hangs = false;
    for (const uint32_t index : nodes) {
        hangs |= evidence.hang_of[index] == Hang::kByTime;
        for (const Waiter& waiter : evidence.node(index).waiting) {
            processes.insert(waiter.member.process);
        }
    }
    if (nodes.size() < 2 || processes.size() < 2 || !hangs || !evidence.all_are_held() ||
        evidence.may_be_one_communicator(nodes)) {
        return;
    }
    const uint32_t oldest = evidence.oldest_of(nodes);
    Finding finding = evidence.finding_at(FindingKind::kCommInitStuck, oldest);
    finding.ranks = evidence.ranks_in(nodes);
    constexpr size_t kShown = 8;
    evidence.show_waits(nodes, finding, kShown);
    finding.summary = phrase(
        "{} are in the creation of {} communicators, and each of these lacks a member; all ranks are held in calls, so "
        "those who are missing in one are in another: they create them in orders that wait for each other",
        ranks_fact(finding.ranks), nodes.size());
    depends_on(finding, Unknown::kCreatedFor);
    told.explain(std::move(finding), nodes);
}

}  // namespace titan::analyzer
