// all_to_all: members rightly pass different sizes, but what all of them send together is what all receive together.
#include "finders.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

struct Part {
    MemberRef member;
    uint64_t sent;
    uint64_t received;
    bool even() const { return sent == received; }
};

// Members that differ from a majority with one even size; all members if there is no such majority.
std::vector<Part> suspects(const std::vector<Part>& parts) {
    std::map<uint64_t, size_t> votes;
    for (const Part& part : parts) {
        votes[part.sent] += part.even() ? 1 : 0;
    }
    for (const auto& [size, count] : votes) {
        if (count * 2 > parts.size()) {
            std::vector<Part> few;
            std::copy_if(parts.begin(), parts.end(), std::back_inserter(few),
                         [&](const Part& part) { return !part.even() || part.sent != size; });
            return few;
        }
    }
    return parts;
}

}  // namespace

void find_uneven_exchanges(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    std::map<std::pair<uint32_t, uint64_t>, std::vector<Part>> calls;
    for (uint32_t process = 0; process < evidence.run.processes.size(); ++process) {
        for (const Exchange& exchange : evidence.run.processes[process].exchanges) {
            const Member& member = evidence.run.processes[process].members[exchange.row];
            if (member.communicator != kNoIndex) {
                calls[{member.communicator, exchange.sequence}].push_back(
                    {{process, exchange.row}, exchange.sent, exchange.received});
            }
        }
    }
    for (const auto& [place, parts] : calls) {
        const Communicator& communicator = evidence.run.communicators[place.first];
        uint64_t sent = 0;
        uint64_t received = 0;
        for (const Part& part : parts) {
            sent += part.sent;
            received += part.received;
        }
        if (sent != received && communicator.size > 0 && parts.size() == static_cast<size_t>(communicator.size)) {
            Finding finding;
            finding.kind = FindingKind::kSizeMismatch;
            finding.communicator = place.first;
            finding.sequence = place.second;
            finding.op = op_text(OpKind::kAllToAll);
            const std::vector<Part> wrong = suspects(parts);
            for (const Part& part : wrong) {
                finding.ranks.push_back(evidence.run.member(part.member).global_rank);
                finding.evidence.push_back(phrase("{}: sends {} elements, receives {}", rank_fact(finding.ranks.back()),
                                                  grouped_digits(part.sent), grouped_digits(part.received)));
            }
            finding.summary = phrase("the members of {} send {} elements and receive {}{}",
                                     call_fact(evidence.run, place.first, OpKind::kAllToAll, place.second),
                                     grouped_digits(sent), grouped_digits(received),
                                     wrong.size() == parts.size() ? "; whose sizes are wrong is undecidable" : "");
            finding.doubt(true, "the sizes for each peer, which the record does not hold");
            finding.doubt(wrong.size() == parts.size(), "a majority that passes one size");
            std::vector<uint32_t> nodes;
            for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
                const WaitNode& node = evidence.graph.nodes[index];
                if (node.kind == WaitKind::kCollective && node.communicator == place.first &&
                    node.sequence == place.second) {
                    nodes.push_back(index);
                    explained.nodes[index] = true;
                }
            }
            evidence.add_victims(nodes, finding);
            finding.hangs = !nodes.empty();
            findings.push_back(std::move(finding));
        }
    }
}

}  // namespace titan::analyzer
