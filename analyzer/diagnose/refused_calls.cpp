#include "refused_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "host/words.h"
#include "host_threads.h"
#include "run_text.h"
#include "steps.h"

namespace titan::analyzer {
namespace {

// As ncclGetErrorString has it, by number.
std::string_view error_name(int32_t result) {
    constexpr std::string_view kNames[] = {"",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or network error"};
    return result > 0 && static_cast<size_t>(result) < std::size(kNames) ? kNames[result] : "unknown error";
}

bool is_refused(const Entry& entry) { return entry.state == CallState::kFailed && entry.result > 0; }

// Null: the newest call was not refused.
const Entry* newest_if_refused(const Process& process) {
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [](const Entry& entry) {
        return format::moves_data(entry.kind) || is_creation(entry.kind);
    });
    return last == process.entries.rend() || !is_refused(*last) ? nullptr : &*last;
}

// The newest refused call on one of these communicators; null: none.
template <typename Is>
const Entry* newest_refused(const Process& process, const Is& is_one) {
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return is_refused(entry) && entry.row < process.members.size() && is_one(process.members[entry.row].id);
    });
    return last == process.entries.rend() ? nullptr : &*last;
}

// The rank's call on the communicator of the finding, or on one where others wait for it. Null: none, or NCCL refused
// such calls on those who wait, too.
const Entry* refused_here_alone(const Evidence& evidence, const Finding& finding, const Process& process) {
    const auto has_id = [&](uint32_t communicator, uint64_t id) {
        return communicator != kNoIndex && evidence.run.communicators[communicator].id == id;
    };
    const auto is_awaited_on = [&](uint64_t id) {
        return has_id(finding.communicator, id) || std::ranges::any_of(evidence.graph.nodes, [&](const WaitNode& node) {
                   return has_id(node.communicator, id) && std::ranges::any_of(node.absent, [&](const Absence& one) {
                              return one.global_rank == process.rank;
                          });
               });
    };
    const Entry* const refused = newest_refused(process, is_awaited_on);
    const auto is_same = [&](uint64_t id) { return id == process.members[refused->row].id; };
    const bool everywhere = refused != nullptr && std::ranges::any_of(finding.victims, [&](int rank) {
                                const Process* const other = evidence.process_of_rank[rank];
                                return other != nullptr && newest_refused(*other, is_same) != nullptr;
                            });
    return everywhere ? nullptr : refused;
}

// "broadcast (float32 x 4,096, root 9 of the communicator)".
std::string refused_text(const Entry& entry) {
    const bool has_peer = format::class_of(entry.kind) == format::OpClass::p2p;
    return op_text(entry.kind) +
           (format::moves_data(entry.kind)
                ? fmt::format(" ({}{})", arguments_text(entry),
                              has_peer ? fmt::format(", peer {} of the communicator", entry.peer) : "")
                : "");
}

}  // namespace

std::vector<Refusal> refusals_of(const Run& run) {
    std::map<std::string, std::vector<int>> ranks;
    for (const Process& process : run.processes) {
        if (const Entry* const refused = newest_if_refused(process)) {
            ranks[fmt::format("{} ({})", op_text(refused->kind), error_name(refused->result))].push_back(process.rank);
        }
    }
    std::vector<Refusal> refusals;
    for (auto& [what, of_it] : ranks) {
        sort_unique(of_it);
        refusals.push_back({what, std::move(of_it)});
    }
    return refusals;
}

Sentence refusal_fact(const Refusal& refusal) {
    return phrase("NCCL refused {} on {}", refusal.what, ranks_fact(refusal.ranks));
}

void add_refusals(const Evidence& evidence, std::vector<Finding>& findings) {
    evidence.for_each_named(findings, [&](const Process& process, Finding& finding) {
        if (const Entry* const refused = refused_here_alone(evidence, finding, process)) {
            finding.summary += phrase("; NCCL refused {} on {}: {}", refused_text(*refused), rank_fact(process.rank),
                                      error_name(refused->result));
            finding.evidence.push_back(
                phrase("{}: NCCL refused {} {} before its dump{}", rank_fact(process.rank), op_text(refused->kind),
                       duration_fact(process.now_ns - refused->entered_ns), site_text(process, *refused)));
        }
    });
}

}  // namespace titan::analyzer
