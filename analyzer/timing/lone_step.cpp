#include "lone_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSteps = 4;
constexpr double kFarLonger = 5;  // times the second longest

}  // namespace

std::string lone_step_text(const TimeAxis& axis) {
    if (!axis.steps || axis.keys.size() <= kLeastSteps) {
        return {};
    }
    size_t longest = 0;
    double longest_ns = 0, others_ns = 0;
    for (size_t i = 0; i + 1 < axis.keys.size(); ++i) {
        const double ns =
            (axis.when_ns[i + 1] - axis.when_ns[i]) / static_cast<double>(axis.keys[i + 1] - axis.keys[i]);
        if (ns > longest_ns) {
            others_ns = longest_ns;
            longest_ns = ns;
            longest = i;
        } else {
            others_ns = std::max(others_ns, ns);
        }
    }
    return longest == 0 || longest_ns < kFarLonger * others_ns
               ? std::string()
               : fmt::format("step {} alone takes {}, no other more than {}", axis.keys[longest],
                             fine_duration_text(longest_ns), fine_duration_text(others_ns));
}

}  // namespace titan::analyzer
