#include "diagnosis_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "document.h"
#include "host/words.h"
#include "host_threads.h"
#include "layout.h"
#include "rank_state.h"
#include "repeated_sites.h"
#include "report_parts.h"

namespace titan::analyzer {
namespace {

constexpr size_t kShownFindings = 4;  // the verdict and three more
constexpr size_t kShownEvidence = 8;
constexpr size_t kShownEvidenceOfOthers = 2;
constexpr size_t kShownStates = 12;
constexpr size_t kShownWarnings = 12;
constexpr size_t kShownSteps = 8;
constexpr size_t kShownStacks = 2;
constexpr size_t kShownFrames = 20;
constexpr size_t kShownWaits = 4;

Section healthy(const Run& run, const Diagnosis& diagnosis) {
    Section section{.id = "nothing_wrong", .title = "NOTHING WRONG", .tone = Tone::kGood};
    if (!diagnosis.ended.empty()) {
        section.lead = diagnosis.ended;
    } else {
        section.lead =
            "nothing was pending for longer than usual at the moment of the dumps, and all recorded calls match";
        if (const int64_t step = newest_step(run); step >= 0) {
            section.blocks.push_back(Paragraph{phrase("newest step: {}", step)});
        }
    }
    for (const std::string& text : {diagnosis.metrics, diagnosis.slow}) {
        if (!text.empty()) {
            section.blocks.push_back(Paragraph{text});
        }
    }
    return section;
}

Section waiting(const std::vector<Pending>& waits) {
    Items items{.shown = kShownWaits, .others = "more such waits (--json)"};
    for (const Pending& pending : waits) {
        items.items.push_back(pending.summary);
    }
    return {.id = "waiting",
            .title = "WAITING",
            .tone = Tone::kCaution,
            .lead = "nothing is overdue yet",
            .blocks = {std::move(items)}};
}

// Shows the cycle as a person would draw it, one wait a line.
Section cycle(const Finding& finding) {
    Chain chain{.back = phrase("back to {}", rank_fact(finding.cycle.front().rank)), .shown = kShownSteps};
    for (const CycleStep& step : finding.cycle) {
        chain.steps.push_back(
            phrase("{} waits in {} for {}", rank_fact(step.rank), step.waits_in, rank_fact(step.waits_for)));
    }
    return {.id = "cycle", .title = "The cycle", .blocks = {std::move(chain)}};
}

using RanksByState = std::map<std::string, std::vector<int>>;

RanksByState by_state(const std::vector<int>& ranks, const std::map<int, std::string>& states) {
    RanksByState groups;
    for (const int rank : ranks) {
        groups[states.at(rank)].push_back(rank);
    }
    return groups;
}

// If many groups wait for a different call each, these calls are left out.
RanksByState by_shortest_state(const Run& run, const Finding& finding) {
    RanksByState groups;
    for (const int rank : finding.victims) {
        const Process* process = process_of_rank(run, rank);
        groups[process == nullptr ? finding.brief_state.at(rank) : rank_state_without_times(run, *process)].push_back(
            rank);
    }
    return groups;
}

// Ranks that do the same are one line; those that are named come first and keep their times.
Section states(const Run& run, const Finding& finding) {
    const RanksByState named = by_state(finding.ranks, finding.brief_state);
    RanksByState victims = by_state(finding.victims, finding.brief_state);
    if (named.size() + victims.size() > kShownStates) {
        victims = by_shortest_state(run, finding);
    }
    RankGroups groups{.shown = kShownStates};
    for (const RanksByState* part : {&named, &std::as_const(victims)}) {
        for (const auto& [state, ranks] : *part) {
            groups.groups.push_back(
                {Sentence(ranks_text(run, ranks), RanksFact{ranks}),
                 without_told_site(run, finding, ranks.front(),
                                   ranks.size() == 1 ? finding.rank_state.at(ranks.front()) : state),
                 part == &named});
        }
    }
    return {.id = "rank_states", .title = "What the ranks do", .blocks = {std::move(groups)}};
}

std::vector<Section> stacks(const Finding& finding) {
    std::vector<std::pair<std::vector<int>, std::vector<std::string>>> places;  // ranks that stand alike
    for (const auto& [rank, frames] : finding.stacks) {
        std::vector<std::string> lines = folded_frames(frames, kShownFrames);
        const auto known = std::ranges::find_if(places, [&](const auto& place) { return place.second == lines; });
        if (known == places.end()) {
            places.emplace_back(std::vector{rank}, std::move(lines));
        } else {
            known->first.push_back(rank);
        }
    }
    std::vector<Section> sections;
    for (auto& [ranks, lines] : places) {
        sections.push_back({.id = "stack",
                            .title = fmt::format("Where {} {}, innermost first (titan-analyze stacks shows all)",
                                                 ranks_text(ranks), verb_form(ranks.size(), "is", "are")),
                            .blocks = {Frames{std::move(lines)}},
                            .folded_as = sections.size() < kShownStacks ? "" : "place"});
    }
    return sections;
}

std::string label_of(const char* title, const Finding& finding) {
    return fmt::format("{}  {} ({})", title, name_of(finding.kind), name_of(finding.confidence));
}

Section verdict(const Run& run, const Finding& finding) {
    Section section{.id = "verdict", .title = label_of("VERDICT", finding), .tone = Tone::kAlarm};
    section.blocks = {Paragraph{finding.summary}};
    section.sections.push_back(
        {.id = "evidence", .title = "How we know", .blocks = {Items{finding.evidence, kShownEvidence}}});
    if (!finding.cycle.empty()) {
        section.sections.push_back(cycle(finding));
    }
    if (!finding.would_confirm.empty()) {
        section.sections.push_back(
            {.id = "would_confirm", .title = "What would make it certain", .blocks = {Items{finding.would_confirm}}});
    }
    if (!finding.rank_state.empty()) {
        section.sections.push_back(states(run, finding));
    }
    for (Section& stack : stacks(finding)) {
        section.sections.push_back(std::move(stack));
    }
    return section;
}

Section other_finding(const Finding& finding, bool folded) {
    return {.id = "finding",
            .title = label_of("ALSO", finding),
            .tone = Tone::kCaution,
            .blocks = {Paragraph{finding.summary}, Items{finding.evidence, kShownEvidenceOfOthers}},
            .folded_as = folded ? "finding" : ""};
}

Section warnings(const std::vector<Warning>& all) {
    Items items{.shown = kShownWarnings};
    for (const Warning& warning : all) {
        items.items.push_back(phrase("{}: {}", name_of(warning.kind), warning.summary));
    }
    return {.id = "warnings", .title = "What could not be seen", .blocks = {std::move(items)}};
}

}  // namespace

Document diagnosis_document(const Run& run, const Diagnosis& diagnosis) {
    const std::vector<Finding>& findings = diagnosis.findings;
    Document document{.about = outline_text(run)};
    std::vector<Section>& sections = document.sections;
    if (!diagnosis.cannot_tell.empty()) {
        sections.push_back({.id = "cannot_tell",
                            .title = "CANNOT TELL",
                            .tone = Tone::kCaution,
                            .blocks = {Paragraph{diagnosis.cannot_tell}}});
        if (!diagnosis.slow.empty()) {
            sections.back().blocks.push_back(Paragraph{diagnosis.slow});
        }
    } else if (findings.empty() && diagnosis.waiting.empty()) {
        sections.push_back(healthy(run, diagnosis));
    }
    if (!diagnosis.waiting.empty()) {
        sections.push_back(waiting(diagnosis.waiting));
    }
    for (size_t i = 0; i < findings.size(); ++i) {
        sections.push_back(i == 0 ? verdict(run, findings[i]) : other_finding(findings[i], i >= kShownFindings));
    }
    if (!diagnosis.warnings.empty()) {
        sections.push_back(warnings(diagnosis.warnings));
    }
    return document;
}

Document advised_document(const Run& run, const Diagnosis& diagnosis, const std::string& input) {
    Document document = diagnosis_document(run, diagnosis);
    std::vector<std::string> steps;
    if (!diagnosis.findings.empty()) {
        steps = next_steps(run, diagnosis.findings.front(), input);
    } else if (!diagnosis.cannot_tell.empty() || !diagnosis.waiting.empty()) {
        steps = look_at_a_rank(run, input);
    }
    if (!steps.empty()) {
        document.sections.push_back({.id = "next_steps", .title = "What next", .blocks = {Commands{steps}}});
    }
    return document;
}

std::string text_report(const Run& run, const Diagnosis& diagnosis, const TextStyle& style) {
    const Document document = advised_document(run, diagnosis, style.input);
    return style.rows == 0 ? document_text(document, style)
                           : screenful(document, style, fmt::format("titan-analyze {} --all", style.input));
}

// --- frames of a stack

namespace {

constexpr size_t kShownLibraries = 4;
constexpr size_t kOutermostLines = 4;  // kept of a stack that is cut in the middle

using Frame = std::vector<StackFrame>::const_iterator;

std::string run_text(Frame first, Frame end) {
    if (end - first == 1) {
        return first->text;
    }
    std::vector<std::string> libraries;
    for (auto frame = first; frame != end; ++frame) {
        if (std::ranges::find(libraries, frame->library) == libraries.end()) {
            libraries.push_back(frame->library);
        }
    }
    const bool are_more = libraries.size() > kShownLibraries;
    libraries.resize(std::min(libraries.size(), kShownLibraries));
    return fmt::format("... {} frames in {}{}", end - first, listed(libraries), are_more ? " and more" : "");
}

}  // namespace

std::vector<std::string> folded_frames(const std::vector<StackFrame>& frames, size_t most) {
    std::vector<std::string> lines;
    for (auto next = frames.begin(); next != frames.end();) {
        const auto end =
            std::find_if(next, frames.end(), [](const StackFrame& frame) { return frame.library.empty(); });
        if (end == next) {
            lines.push_back((next++)->text);
            continue;
        }
        const auto folded_end = end == frames.end() ? end : std::prev(end);
        if (folded_end != next) {
            lines.push_back(run_text(next, folded_end));
        }
        if (folded_end != end) {
            lines.push_back(folded_end->text);
        }
        next = end;
    }
    if (lines.size() > most) {
        const auto outermost = lines.end() - static_cast<std::ptrdiff_t>(kOutermostLines);
        const auto cut = lines.begin() + static_cast<std::ptrdiff_t>(most - kOutermostLines - 1);
        *cut = fmt::format("... {} more", outermost - cut);
        lines.erase(cut + 1, outermost);
    }
    return lines;
}

}  // namespace titan::analyzer
