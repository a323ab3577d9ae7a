// Files that a reader knows and cannot use are named, and why.
#include "unread.h"

#include <algorithm>

namespace titan::analyzer {

void warn_of_unread(Run& run) {
    for (const Testimony& said : run.testimony) {
        if (said.claim == Claim::kUnread) {
            run.warnings.push_back({WarningKind::kNotRead, {}, said.file + ": " + said.text});
        }
    }
    std::erase_if(run.testimony, [](const Testimony& said) { return said.claim == Claim::kUnread; });
}

}  // namespace titan::analyzer
