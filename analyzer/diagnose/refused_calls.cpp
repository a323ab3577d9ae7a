#include "refused_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "host/words.h"
#include "host_threads.h"
#include "run_text.h"

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

// Null: the newest call was not refused.
const Entry* refused_call(const Process& process) {
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [](const Entry& entry) {
        return format::moves_data(entry.kind) || is_creation(entry.kind);
    });
    return last == process.entries.rend() || last->state != CallState::kFailed || last->result <= 0 ? nullptr : &*last;
}

}  // namespace

std::vector<Refusal> refusals_of(const Run& run) {
    std::map<std::string, std::vector<int>> ranks;
    for (const Process& process : run.processes) {
        if (const Entry* const refused = refused_call(process)) {
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

}  // namespace titan::analyzer
