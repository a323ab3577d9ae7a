// all_to_all: members rightly pass different sizes, but what one sends to another is what that one receives from it,
// and what all of them send together is what all receive together.
#include "finders.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "host/words.h"
#include "run_text.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

struct Part {
    MemberRef member;
    const Exchange* exchange = nullptr;
    bool even() const { return exchange->sent == exchange->received; }
    int64_t surplus() const { return static_cast<int64_t>(exchange->sent - exchange->received); }
};

// One call, as the members tell it.
struct Call {
    uint32_t communicator = kNoIndex;
    uint64_t sequence = kNoSequence;
    std::vector<Part> parts;
    // Elements that the members send beyond those that they receive; nothing where not all of them tell.
    std::optional<int64_t> surplus = std::nullopt;
};

// What one member sends to another, in elements.
struct UnevenPair {
    size_t from = 0;  // parts of the call
    size_t to = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
};

struct Pairs {
    std::vector<UnevenPair> differ;
    size_t agree = 0;
    std::optional<uint64_t> usual;  // what more than half of those that agree pass
};

std::optional<uint64_t> of_peer(const std::vector<uint64_t>& by_rank, int32_t rank) {
    const bool known = rank >= 0 && static_cast<size_t>(rank) < by_rank.size();
    return known ? std::optional(by_rank[static_cast<size_t>(rank)]) : std::nullopt;
}

Pairs compare_pairs(const Run& run, const Call& call) {
    Pairs pairs;
    std::map<uint64_t, size_t> votes;
    for (size_t from = 0; from < call.parts.size(); ++from) {
        const int32_t sender = run.member(call.parts[from].member).rank;
        for (size_t to = 0; to < call.parts.size(); ++to) {
            const int32_t receiver = run.member(call.parts[to].member).rank;
            const auto sent = of_peer(call.parts[from].exchange->sent_to, receiver);
            const auto received = of_peer(call.parts[to].exchange->received_from, sender);
            if (sent && received && *sent != *received) {
                pairs.differ.push_back({from, to, *sent, *received});
            } else if (sent && received) {
                ++pairs.agree;
                ++votes[*sent];
            }
        }
    }
    for (const auto& [elements, count] : votes) {
        if (count * 2 > pairs.agree) {
            pairs.usual = elements;
        }
    }
    return pairs;
}

// The one part that all pairs that differ have in common, or of one pair alone the one whose number is not the usual.
struct Odd {
    std::optional<size_t> part;
    bool by_the_usual = false;
};

Odd odd_part(const Pairs& pairs) {
    const auto in_all = only_in_all(pairs.differ, [](const UnevenPair& pair) { return std::pair(pair.from, pair.to); });
    if (in_all) {
        return {in_all, false};
    }
    const UnevenPair& first = pairs.differ.front();
    if (pairs.differ.size() == 1 && pairs.usual == first.received) {
        return {first.from, true};
    }
    if (pairs.differ.size() == 1 && pairs.usual == first.sent) {
        return {first.to, true};
    }
    return {};
}

int rank_of(const Run& run, const Call& call, size_t part) { return run.member(call.parts[part].member).global_rank; }

Sentence pair_fact(const Run& run, const Call& call, const UnevenPair& pair) {
    return phrase("{} sends {} to {}, which receives {} of it", rank_fact(rank_of(run, call, pair.from)),
                  many_counted(pair.sent, "element"), rank_fact(rank_of(run, call, pair.to)),
                  grouped_digits(pair.received));
}

Sentence part_fact(const Run& run, const Call& call, size_t index) {
    const Part& part = call.parts[index];
    const Process& process = run.process(part.member);
    const Entry* entry = process.call_at(process.members[part.member.row], call.sequence);
    return phrase("{}: sends {} elements, receives {}{}", rank_fact(rank_of(run, call, index)),
                  grouped_digits(part.exchange->sent), grouped_digits(part.exchange->received),
                  entry == nullptr ? std::string() : site_text(process, *entry));
}

void judge_pairs(const Run& run, const Call& call, const Pairs& pairs, Finding& finding) {
    constexpr size_t kMostPairs = 6;
    const Sentence where = call_fact(run, call.communicator, OpKind::kAllToAll, call.sequence);
    const Sentence first = pair_fact(run, call, pairs.differ.front());
    const Odd odd = odd_part(pairs);
    std::vector<size_t> concerned;
    for (const UnevenPair& pair : pairs.differ) {
        concerned.insert(concerned.end(), {pair.from, pair.to});
    }
    std::ranges::sort(concerned);
    concerned.erase(std::unique(concerned.begin(), concerned.end()), concerned.end());
    if (odd.part) {
        finding.ranks = {rank_of(run, call, *odd.part)};
        const bool alone = concerned.size() == 1;
        std::vector<int> others;
        for (const size_t part : concerned) {
            if (part != *odd.part) {
                others.push_back(rank_of(run, call, part));
            }
        }
        finding.summary = alone ? phrase("the sizes of {} in {} do not fit each other: {}",
                                         rank_fact(finding.ranks.front()), where, first)
                                : phrase("{} passes other sizes than {} in {}: {}", rank_fact(finding.ranks.front()),
                                         ranks_fact(others), where, first);
        doubt<Unknown::kSizeMeant>(finding, !alone, "size");
    } else {
        for (const size_t part : concerned) {
            finding.ranks.push_back(rank_of(run, call, part));
        }
        std::ranges::sort(finding.ranks);
        finding.summary =
            pairs.differ.size() == 1
                ? phrase("the two sides of a pair pass different sizes in {}: {}; which one is wrong is undecidable",
                         where, first)
                : phrase("{} pairs of ranks pass different sizes in {}, one of them: {}; who is wrong is undecidable",
                         pairs.differ.size(), where, first);
        depends_on<Unknown::kSizeOfPair>(finding, "size");
    }
    for (size_t i = 1; i < std::min(pairs.differ.size(), kMostPairs); ++i) {
        finding.evidence.push_back(pair_fact(run, call, pairs.differ[i]));
    }
    if (pairs.differ.size() > 1 && odd.part) {
        finding.evidence.push_back(phrase("all pairs that differ have {} in common", rank_fact(finding.ranks.front())));
    }
    if (pairs.agree != 0) {
        finding.evidence.push_back(phrase(
            "{} of the call {}{}", many_counted(pairs.agree, "other pair"), verb_form(pairs.agree, "agrees", "agree"),
            odd.by_the_usual ? ", most of them on " + many_counted(*pairs.usual, "element") : std::string()));
    }
    for (size_t i = 0; i < std::min(concerned.size(), kMostPairs); ++i) {
        finding.evidence.push_back(part_fact(run, call, concerned[i]));
    }
}

// Members that differ from a majority with one even size; all members if there is no such majority.
std::vector<size_t> suspects(const Call& call) {
    std::vector<size_t> all;
    std::map<uint64_t, size_t> votes;
    for (size_t part = 0; part < call.parts.size(); ++part) {
        all.push_back(part);
        votes[call.parts[part].exchange->sent] += call.parts[part].even() ? 1 : 0;
    }
    for (const auto& [size, count] : votes) {
        if (count * 2 > call.parts.size()) {
            std::vector<size_t> few;
            std::ranges::copy_if(all, std::back_inserter(few), [&](size_t index) {
                const Part& part = call.parts[index];
                return !part.even() || part.exchange->sent != size;
            });
            return few;
        }
    }
    return all;
}

// A member that left a call out, or made one too many.
struct Shifted {
    size_t part = 0;
    bool left_out = false;
};

// The only member with which all calls behind the first fit, if its calls count as one later (it left one out) or
// earlier, and not as they are numbered. `calls`: one communicator's, in order.
std::optional<Shifted> shifted_member(std::span<const Call> calls) {
    std::optional<Shifted> found;
    for (size_t part = 0; part < calls.front().parts.size(); ++part) {
        for (const bool left_out : {true, false}) {
            const size_t first = left_out ? 1 : 0;
            bool fits = calls.size() > 1;
            for (size_t i = first; i + 1 < calls.size() + first && fits; ++i) {
                const Call& own = left_out ? calls[i - 1] : calls[i + 1];
                fits = calls[i].surplus.value_or(0) != 0 &&
                       *calls[i].surplus - calls[i].parts[part].surplus() + own.parts[part].surplus() == 0;
            }
            if (fits && found) {
                return std::nullopt;
            }
            found = fits ? Shifted{part, left_out} : found;
        }
    }
    return found;
}

// How many of the calls the finding explains, from the first on; none: the sums are equal, or not all members tell
// them. `calls`: as for shifted_member.
size_t judge_sums(const Run& run, std::span<const Call> calls, Finding& finding) {
    const Call& call = calls.front();
    if (call.surplus.value_or(0) == 0) {
        return 0;
    }
    uint64_t sent = 0;
    uint64_t received = 0;
    for (const Part& part : call.parts) {
        sent += part.exchange->sent;
        received += part.exchange->received;
    }
    const Sentence where = call_fact(run, call.communicator, OpKind::kAllToAll, call.sequence);
    if (const std::optional<Shifted> shifted = shifted_member(calls)) {
        finding.ranks = {rank_of(run, call, shifted->part)};
        finding.summary =
            phrase("{} {} before {}: from there on the sizes fit only if its calls count as one {}",
                   rank_fact(finding.ranks.front()), shifted->left_out ? "left out a call" : "made one call too many",
                   where, shifted->left_out ? "later" : "earlier");
        finding.evidence.push_back(phrase("all members together send {} elements in {} and receive {}",
                                          grouped_digits(sent), where, grouped_digits(received)));
        depends_on(finding, Unknown::kPeerSizes);
        return calls.size();
    }
    const std::vector<size_t> wrong = suspects(call);
    for (const size_t part : wrong) {
        finding.ranks.push_back(rank_of(run, call, part));
        finding.evidence.push_back(part_fact(run, call, part));
    }
    finding.summary = phrase("the members of {} send {} elements and receive {}{}", where, grouped_digits(sent),
                             grouped_digits(received),
                             wrong.size() == call.parts.size() ? "; whose sizes are wrong is undecidable" : "");
    depends_on(finding, Unknown::kPeerSizes);
    doubt<Unknown::kSizeOfMost>(finding, wrong.size() == call.parts.size());
    return 1;
}

// A coalesced call may hold several exchanges of a member: which belong together, their numbers do not tell.
bool one_each(const Call& call) {
    std::vector<uint32_t> processes;
    for (const Part& part : call.parts) {
        processes.push_back(part.member.process);
    }
    std::ranges::sort(processes);
    return std::adjacent_find(processes.begin(), processes.end()) == processes.end();
}

std::vector<Call> exchanges(const Run& run) {
    std::map<std::pair<uint32_t, uint64_t>, std::vector<Part>> parts;
    for (uint32_t process = 0; process < run.processes.size(); ++process) {
        for (const Exchange& exchange : run.processes[process].exchanges) {
            const Member& member = run.processes[process].members[exchange.row];
            if (member.communicator != kNoIndex) {
                parts[{member.communicator, exchange.sequence}].push_back({{process, exchange.row}, &exchange});
            }
        }
    }
    std::vector<Call> calls;
    for (auto& [place, of] : parts) {
        Call& call = calls.emplace_back(Call{place.first, place.second, std::move(of)});
        const int32_t size = run.communicators[call.communicator].size;
        if (size > 0 && call.parts.size() == static_cast<size_t>(size)) {
            call.surplus = std::accumulate(call.parts.begin(), call.parts.end(), int64_t{0},
                                           [](int64_t sum, const Part& part) { return sum + part.surplus(); });
        }
    }
    return calls;
}

// The first of these calls, and those behind it on the same communicator that all members tell of.
std::span<const Call> whole_calls_from(std::span<const Call> calls) {
    size_t count = 1;
    while (count < calls.size() && calls[count].communicator == calls.front().communicator &&
           calls[count].sequence == calls[count - 1].sequence + 1 && calls[count].surplus) {
        ++count;
    }
    return calls.first(count);
}

}  // namespace

void find_uneven_exchanges(const Evidence& evidence, ToldSoFar& told) {
    const std::vector<Call> calls = exchanges(evidence.run);
    size_t explains = 1;
    for (size_t i = 0; i < calls.size(); i += explains) {
        const Call& call = calls[i];
        explains = 1;
        Finding finding;
        finding.kind = FindingKind::kSizeMismatch;
        finding.communicator = call.communicator;
        finding.sequence = call.sequence;
        finding.op = op_text(OpKind::kAllToAll);
        const Pairs pairs = one_each(call) ? compare_pairs(evidence.run, call) : Pairs();
        if (!pairs.differ.empty()) {
            judge_pairs(evidence.run, call, pairs, finding);
        } else if (const size_t count =
                       judge_sums(evidence.run, whole_calls_from(std::span(calls).subspan(i)), finding)) {
            explains = count;
        } else {
            continue;
        }
        std::vector<uint32_t> nodes;
        for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
            const WaitNode& node = evidence.node(index);
            if (node.kind == WaitKind::kCollective && node.communicator == call.communicator &&
                node.sequence >= call.sequence && node.sequence < call.sequence + explains) {
                nodes.push_back(index);
                told.explained[index] = true;
            }
        }
        // A call that the rank made elsewhere instead tells more.
        const auto surer = std::ranges::find_if(told.findings, [&](const Finding& other) {
            return other.ranks == finding.ranks && other.confidence > finding.confidence;
        });
        if (surer != told.findings.end()) {
            surer->evidence.push_back(finding.summary);
            continue;
        }
        finding.hangs = !nodes.empty();
        told.add(std::move(finding), nodes);
    }
}

}  // namespace titan::analyzer
