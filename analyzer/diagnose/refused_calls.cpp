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

// Is it the communicator of the finding, or do others wait there for the rank?
bool is_awaited_on(const Evidence& evidence, const Finding& finding, int rank, uint64_t id) {
    const auto has_id = [&](uint32_t communicator) {
        return communicator != kNoIndex && evidence.run.communicators[communicator].id == id;
    };
    return has_id(finding.communicator) || std::ranges::any_of(evidence.graph.nodes, [&](const WaitNode& node) {
               return has_id(node.communicator) &&
                      std::ranges::any_of(node.absent, [&](const Absence& one) { return one.global_rank == rank; });
           });
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
        const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
            return is_refused(entry) && entry.row < process.members.size() &&
                   is_awaited_on(evidence, finding, process.rank, process.members[entry.row].id);
        });
        if (last != process.entries.rend()) {
            finding.summary += phrase("; NCCL refused {} on {}: {}", refused_text(*last), rank_fact(process.rank),
                                      error_name(last->result));
            finding.evidence.push_back(phrase("{}: NCCL refused {} {} before its dump{}", rank_fact(process.rank),
                                              op_text(last->kind), duration_fact(process.now_ns - last->entered_ns),
                                              site_text(process, *last)));
        }
    });
}

}  // namespace titan::analyzer
