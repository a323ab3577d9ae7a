#include "damage_warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"

namespace titan::analyzer {

void warn_of_damage(const std::vector<std::string>& problems, std::vector<Warning>& warnings) {
    constexpr size_t kShownProblems = 5;
    for (size_t i = 0; i < std::min(problems.size(), kShownProblems); ++i) {
        warnings.push_back({WarningKind::kDamagedFile, {}, problems[i]});
    }
    if (problems.size() > kShownProblems) {
        warnings.push_back(
            {WarningKind::kDamagedFile,
             {},
             fmt::format("and {} more problems of this kind", grouped_digits(problems.size() - kShownProblems))});
    }
}

}  // namespace titan::analyzer
