#include "pair_calls.h"

#include <fmt/format.h>

#include "host/words.h"

namespace titan::analyzer {

PairCalls count_pair_calls(const Run& run) {
    PairCalls calls;
    for (const Process& process : run.processes) {
        const History& history = process.history;
        for (uint32_t i = 0; i < history.size(); ++i) {
            calls.all += format::moves_data(history[i].kind) ? 1 : 0;
            calls.pairs += format::class_of(history[i].kind) == format::OpClass::p2p ? 1 : 0;
        }
    }
    return calls;
}

std::string unseen_in_pairs_text(const PairCalls& calls) {
    return fmt::format(
        "{} of {} calls are sends and receives (an all_to_all is a group of them), which do not "
        "show who is late: a rank that the others wait for only there is not seen",
        grouped_digits(calls.pairs), grouped_digits(calls.all));
}

}  // namespace titan::analyzer
