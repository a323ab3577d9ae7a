// What would end if ranks had made other calls, as a report.
#pragma once

#include <string>
#include <vector>

#include "document.h"
#include "evidence.h"
#include "host/result.h"
#include "play.h"
#include "run.h"
#include "what_if.h"

namespace titan::analyzer {

struct WhatIfReport {
    std::vector<CallEdit> edits;
    WhatIf answer;
    std::vector<int> waiting;  // ranks that wait, as recorded
    std::vector<int> go_on;    // those of them that wait in none of these calls any more
    bool all_end() const { return go_on.size() == waiting.size(); }
};

WhatIfReport what_if_report(const Evidence& evidence, const std::vector<CallEdit>& edits);
Document what_if_document(const Evidence& evidence, const WhatIfReport& report);
std::string what_if_json(const Evidence& evidence, const WhatIfReport& report);

// --- Reads edits of calls as a user types them, or pastes them from a report.

// "all_reduce #48 on world", "send #40 to rank 5 on pp", "rank 3: all_reduce #120 on tp (ranks 4-5)". `ranks`: who
// makes the call where the text does not say it. An edit for each rank, or what is wrong and what there is instead.
Result<std::vector<CallEdit>> read_call_edits(const Run& run, CallEdit::Kind kind, const std::vector<int>& ranks,
                                              std::string_view text);

// Empty, or why these cannot be made together: a call is not there, or comes behind the rank's next one.
std::string impossible_edit(const Run& run, const std::vector<CallEdit>& edits);

// Empty, or that there is no such rank, and which there are.
std::string unknown_rank(const Run& run, int rank);

}  // namespace titan::analyzer
