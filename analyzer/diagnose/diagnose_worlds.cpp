// Worlds of one run that number their ranks alike: none is passed over because another one was chosen.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "choose_role.h"
#include "diagnose.h"

namespace titan::analyzer {
namespace {

auto worth(const Diagnosis& diagnosis) {
    const bool any = !diagnosis.findings.empty();
    return std::tuple(any && diagnosis.findings.front().hangs,
                      any && diagnosis.findings.front().confidence != Confidence::kPossible, any,
                      !diagnosis.cannot_tell.empty(), !diagnosis.waiting.empty());
}

void make_head(Run& run, size_t other) {
    Run head = std::move(run.beside[other]);
    std::vector<Run> beside = std::move(run.beside);
    run.beside.clear();
    std::erase_if(run.warnings, [](const Warning& warning) { return warning.kind == WarningKind::kOtherRole; });
    head.warnings.insert(head.warnings.end(), run.warnings.begin(), run.warnings.end());
    head.passed_over = run.passed_over;
    beside[other] = std::move(run);
    run = std::move(head);
    run.beside = std::move(beside);
    run.warnings.push_back(other_worlds(run));
}

std::string outcome_text(const Diagnosis& diagnosis) {
    switch (outcome_of(diagnosis)) {
        case Outcome::kVerdict: {
            const Finding& head = diagnosis.findings.front();
            return fmt::format("{} ({}): {}", name_of(head.kind), name_of(head.confidence), head.summary.text());
        }
        case Outcome::kCannotTell: return "cannot tell: " + diagnosis.cannot_tell;
        case Outcome::kWaiting: return "waiting: " + diagnosis.waiting.front().summary.text();
        case Outcome::kNothingWrong: break;
    }
    return "nothing wrong there";
}

}  // namespace

Diagnosis diagnose_worlds(Run& run, const DiagnoseOptions& options) {
    Diagnosis diagnosis = diagnose(run, options);
    std::vector<Diagnosis> others;
    for (const Run& other : run.beside) {
        others.push_back(diagnose(other, options));
    }
    const auto best =
        std::ranges::max_element(others, [](const Diagnosis& a, const Diagnosis& b) { return worth(a) < worth(b); });
    if (best != others.end() && worth(*best) > worth(diagnosis)) {
        std::swap(*best, diagnosis);
        const auto other = static_cast<size_t>(best - others.begin());
        const auto own = static_cast<std::ptrdiff_t>(run.beside[other].warnings.size());
        make_head(run, other);
        // Behind those of its world what make_head added, which its diagnosis has not seen.
        diagnosis.warnings.insert(diagnosis.warnings.begin() + own, run.warnings.begin() + own, run.warnings.end());
    }
    for (size_t i = 0; i < others.size(); ++i) {
        diagnosis.warnings.push_back(
            {WarningKind::kOtherRole, {}, world_name(run.beside[i]) + ": " + outcome_text(others[i])});
    }
    return diagnosis;
}

}  // namespace titan::analyzer
