// One line on what a rank is doing, from its threads and its last calls.
#pragma once

#include <string>

#include "evidence.h"
#include "run.h"

namespace titan::analyzer {

// `awaited`: what the thread shown waits for inside a synchronisation, empty if unknown.
std::string rank_state(const Run& run, const Process& process, const std::string& awaited = {});
// The same with the times left out: ranks with equal text are folded.
std::string rank_state_without_times(const Run& run, const Process& process, const std::string& awaited = {});
struct StateTexts {
    std::string with_times;
    std::string without;
};
// Both, with what the thread shown waits for.
StateTexts state_texts(const Evidence& evidence, const Process& process);
// "all_reduce #41 on dp:0 at step 12", empty where nothing is recorded.
std::string last_call_text(const Run& run, const Process& process);

}  // namespace titan::analyzer
