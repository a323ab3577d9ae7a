#include "long_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSteps = 4;
constexpr size_t kMost = 2;
constexpr double kFarLonger = 1.25;     // times every other
constexpr double kLeastOfSteps = 0.05;  // share of the time of all steps that they take beyond usual ones

struct Step {
    int64_t number;
    double ns;
};

}  // namespace

std::string long_steps_text(const TimeAxis& axis) {
    if (!axis.steps || axis.keys.size() <= kLeastSteps) {
        return {};
    }
    std::vector<Step> steps;
    double all_ns = 0;
    for (size_t i = 0; i + 1 < axis.keys.size(); ++i) {
        const double ns = axis.when_ns[i + 1] - axis.when_ns[i];
        steps.push_back({axis.keys[i], ns / static_cast<double>(axis.keys[i + 1] - axis.keys[i])});
        all_ns += ns;
    }
    const int64_t first = steps.front().number;
    std::ranges::stable_sort(steps, std::greater(), &Step::ns);
    const double usual_ns = steps[steps.size() / 2].ns;
    for (size_t count = kMost; count > 0; --count) {
        const Step& least = steps[count - 1];
        const double others_ns = steps[count].ns;
        if (least.ns < kFarLonger * others_ns ||
            (least.ns - usual_ns) * static_cast<double>(count) < kLeastOfSteps * all_ns) {
            continue;
        }
        if (std::ranges::count(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(count), first,
                               &Step::number) != 0) {
            return {};
        }
        const std::string others = fine_duration_text(others_ns);
        if (count == 1) {
            return fmt::format("step {} alone takes {}, no other more than {}", steps[0].number,
                               fine_duration_text(steps[0].ns), others);
        }
        std::ranges::sort(steps.begin(), steps.begin() + 2, std::less(), &Step::number);
        return fmt::format("steps {} and {} take {} and {}, no other more than {}", steps[0].number, steps[1].number,
                           fine_duration_text(steps[0].ns), fine_duration_text(steps[1].ns), others);
    }
    return {};
}

}  // namespace titan::analyzer
