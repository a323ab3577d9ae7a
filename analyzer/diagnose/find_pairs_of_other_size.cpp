// Sends and receives whose sizes in bytes differ, by their counts or by their datatypes. What each side always passed
// before, or the one rank that all such pairs have in common, tells which side is wrong.
#include "finders.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "expected.h"
#include "explain.h"
#include "host/words.h"
#include "run_text.h"
#include "stuck_nodes.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

struct Half {
    MemberRef member;
    int rank = -1;
    std::optional<Entry> call;
    bool is_new = false;  // it passed another size there before
};

struct Pair {
    uint32_t node = kNoIndex;
    std::array<Half, 2> halves;  // sender, receiver

    bool by_datatype() const {
        const auto& [sender, receiver] = halves;
        return sender.call && receiver.call && sender.call->count == receiver.call->count &&
               sender.call->datatype != receiver.call->datatype;
    }
    FindingKind kind() const { return by_datatype() ? FindingKind::kDtypeMismatch : FindingKind::kSizeMismatch; }
    const char* what() const { return by_datatype() ? "datatype" : "size"; }
};

Half half_of(const Evidence& evidence, const WaitNode& node, OpKind kind) {
    const bool sends = kind == OpKind::kSend;
    Half half;
    half.member =
        evidence.run.communicators[node.communicator].by_rank[static_cast<size_t>(sends ? node.source : node.target)];
    half.rank = evidence.rank_of(half.member);
    // A small send is done before anybody receives it: then its sender does not wait.
    const Process& process = evidence.run.process(half.member);
    const auto call = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return entry.row == half.member.row && entry.kind == kind && entry.sequence == node.sequence &&
               entry.peer == (sends ? node.target : node.source);
    });
    if (call != process.entries.rend()) {
        half.call = *call;
        const Past past = Past::of_pair(process, *call);
        const auto i = past.find(call->place);
        half.is_new = i && past.edit_at(*i);
    }
    return half;
}

// -1: neither, or both, did what they never did before.
int odd_by_its_past(const Pair& pair) {
    const auto& [sender, receiver] = pair.halves;
    return sender.is_new == receiver.is_new ? -1 : sender.is_new ? sender.rank : receiver.rank;
}

void show(const std::vector<Pair>& pairs, Finding& finding) {
    constexpr size_t kMostEvidence = 6;
    constexpr std::array kKinds{OpKind::kSend, OpKind::kRecv};
    for (const Pair& pair : pairs) {
        for (size_t side = 0; side < 2; ++side) {
            const Half& half = pair.halves[side];
            if (half.call && finding.evidence.size() < kMostEvidence) {
                finding.evidence.push_back(
                    phrase("{}: {} ({})", rank_fact(half.rank), op_text(kKinds[side]), arguments_text(*half.call)));
            }
        }
    }
}

void tell_undecidable(const Evidence& evidence, ToldSoFar& told, const Pair& pair) {
    Finding finding = evidence.finding_at(pair.kind(), pair.node);
    finding.ranks = {pair.halves[0].rank, pair.halves[1].rank};
    depends_on<Unknown::kSizeOfPair>(finding, pair.what());
    finding.summary = phrase("the two sides of {} pass different {}s; which one is wrong is undecidable",
                             node_fact(evidence.run, evidence.node(pair.node)), pair.what());
    show({pair}, finding);
    told.explain(std::move(finding), {pair.node});
}

void tell_rank(const Evidence& evidence, ToldSoFar& told, int rank, const std::vector<Pair>& pairs, bool by_its_past) {
    std::vector<uint32_t> nodes;
    std::vector<int> peers;
    for (const Pair& pair : pairs) {
        nodes.push_back(pair.node);
        const int peer = pair.halves[pair.halves[0].rank == rank ? 1 : 0].rank;
        if (peer != rank || pairs.size() == 1) {  // an exchange has halves to and from itself, too
            peers.push_back(peer);
        }
    }
    const uint32_t oldest = evidence.oldest_of(nodes);
    const Pair& first = pairs.front();
    Finding finding = evidence.finding_at(first.kind(), oldest);
    finding.ranks = {rank};
    const Sentence call = node_fact(evidence.run, evidence.node(oldest));
    finding.summary =
        pairs.size() == 1
            ? phrase("{} passes another {} than {} in {}", rank_fact(rank), first.what(), ranks_fact(peers), call)
            : phrase("{} passes other {}s than {} in {} sends and receives, the oldest of them {}", rank_fact(rank),
                     first.what(), ranks_fact(peers), pairs.size(), call);
    show(pairs, finding);
    if (by_its_past) {
        finding.evidence.push_back(
            phrase("{} passed the {} of its peers in its earlier calls with them", rank_fact(rank), first.what()));
        depends_on<Unknown::kSizeByPast>(finding, first.what());
    } else {
        finding.evidence.push_back(phrase("all pairs that differ have {} in common", rank_fact(rank)));
        depends_on<Unknown::kSizeMeant>(finding, first.what());
    }
    told.explain(std::move(finding), nodes);
}

}  // namespace

void find_pairs_of_other_size(const Evidence& evidence, ToldSoFar& told) {
    std::map<uint32_t, std::vector<Pair>> differ;  // by communicator
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.node(index);
        if (all_arrived(evidence, told, index) && node.sizes_differ) {
            differ[node.communicator].push_back(
                {index, {half_of(evidence, node, OpKind::kSend), half_of(evidence, node, OpKind::kRecv)}});
        }
    }
    std::map<int, std::vector<Pair>> odd_by_past;
    for (auto& [communicator, pairs] : differ) {
        const auto in_all =
            only_in_all(pairs, [](const Pair& pair) { return std::pair(pair.halves[0].rank, pair.halves[1].rank); });
        if (in_all) {
            tell_rank(evidence, told, *in_all, pairs,
                      std::ranges::all_of(pairs, [&](const Pair& pair) { return odd_by_its_past(pair) == *in_all; }));
            continue;
        }
        for (Pair& pair : pairs) {
            if (const int odd = odd_by_its_past(pair); odd >= 0) {
                odd_by_past[odd].push_back(std::move(pair));
            } else {
                tell_undecidable(evidence, told, pair);
            }
        }
    }
    for (const auto& [rank, pairs] : odd_by_past) {
        tell_rank(evidence, told, rank, pairs, true);
    }
}

}  // namespace titan::analyzer
