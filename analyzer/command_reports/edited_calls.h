// Reads edits of calls as a user types them, or pastes them from a report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/result.h"
#include "play.h"
#include "run.h"

namespace titan::analyzer {

// "all_reduce #48 on world", "send #40 to rank 5 on pp", "rank 3: all_reduce #120 on tp (ranks 4-5)". `ranks`: who
// makes the call where the text does not say it. An edit for each rank, or what is wrong and what there is instead.
Result<std::vector<CallEdit>> read_call_edits(const Run& run, CallEdit::Kind kind, const std::vector<int>& ranks,
                                              std::string_view text);
// Empty, or why these cannot be made together: a call is not there, or comes behind the rank's next one.
std::string impossible_edit(const Run& run, const std::vector<CallEdit>& edits);
// Empty, or that there is no such rank, and which there are.
std::string unknown_rank(const Run& run, int rank);

}  // namespace titan::analyzer
