// What would end if ranks had made other calls, as a report.
#pragma once

#include <string>
#include <vector>

#include "document.h"
#include "evidence.h"
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

}  // namespace titan::analyzer
