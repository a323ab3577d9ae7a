// The report for people: the verdict first, then why, then who does what, then what could not be seen, then what to do.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "fold_frames.h"
#include "host/words.h"
#include "host_threads.h"
#include "layout.h"
#include "rank_state.h"
#include "report.h"
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

std::string wrap(const std::string& text, size_t width, const std::string& first, const std::string& rest) {
    std::string result;
    std::string line = first;
    bool empty_line = true;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        if (!empty_line && characters(line) + 1 + characters(word) > width) {
            result += line + "\n";
            line = rest;
            empty_line = true;
        }
        line += (empty_line ? "" : " ") + word;
        empty_line = false;
        begin = end + 1;
    }
    return result + line + "\n";
}

class TextReport {
  public:
    TextReport(const Run& run, const Diagnosis& diagnosis, const TextStyle& style)
        : run_(run), diagnosis_(diagnosis), style_(style) {}

    std::string write() {
        header();
        if (!diagnosis_.cannot_tell.empty()) {
            cannot_tell();
        } else if (diagnosis_.findings.empty() && diagnosis_.waiting.empty()) {
            healthy();
        }
        waiting();
        for (size_t i = 0; i < std::min(kShownFindings, diagnosis_.findings.size()); ++i) {
            finding(i);
        }
        if (diagnosis_.findings.size() > kShownFindings) {
            out_ += fmt::format("\nand {} more finding{} (--json)\n", diagnosis_.findings.size() - kShownFindings,
                                diagnosis_.findings.size() == kShownFindings + 1 ? "" : "s");
        }
        warnings();
        next_steps();
        return std::move(out_);
    }

  private:
    std::string paint(const char* code, const std::string& text) const {
        return style_.colour ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
    }
    void section(const std::string& title) { out_ += "\n" + paint("1", title) + "\n"; }
    void item(const std::string& text, const std::string& bullet = "  - ") {
        out_ += wrap(text, style_.width, bullet, std::string(characters(bullet), ' '));
    }

    void header() { out_ += wrap(outline_text(run_), style_.width, "", "  "); }

    void cannot_tell() {
        const std::string title = "CANNOT TELL";
        out_ += "\n" + paint("1;33", title) + "\n" + wrap(diagnosis_.cannot_tell, style_.width, "  ", "  ");
    }

    void healthy() {
        const std::string label = "NOTHING WRONG";
        const std::string text = wrap(
            label +
                "  nothing was pending for longer than usual at the moment of the dumps, and all recorded calls match",
            style_.width, "", "  ");
        out_ += "\n" + paint("1;32", label) + text.substr(label.size());
        int64_t step = -1;
        for (const Process& process : run_.processes) {
            step = std::max(step, process.step);
        }
        if (step >= 0) {
            out_ += fmt::format("  newest step: {}\n", step);
        }
    }

    void waiting() {
        if (diagnosis_.waiting.empty()) {
            return;
        }
        out_ += "\n" + paint("1;33", "WAITING") + "  nothing is overdue yet\n";
        for (size_t i = 0; i < std::min(kShownWaits, diagnosis_.waiting.size()); ++i) {
            item(diagnosis_.waiting[i].summary.text());
        }
        if (diagnosis_.waiting.size() > kShownWaits) {
            item(fmt::format("and {} more such waits (--json)", diagnosis_.waiting.size() - kShownWaits));
        }
    }

    void finding(size_t index) {
        const Finding& finding = diagnosis_.findings[index];
        const std::string title = index == 0 ? "VERDICT" : "ALSO";
        const std::string label = fmt::format("{}  {} ({})", title, name_of(finding.kind), name_of(finding.confidence));
        out_ += "\n" + paint(index == 0 ? "1;31" : "1;33", label) + "\n";
        out_ += wrap(finding.summary.text(), style_.width, "  ", "  ");
        if (index != 0) {
            evidence(finding, kShownEvidenceOfOthers);
            return;
        }
        section("  How we know");
        evidence(finding, kShownEvidence);
        cycle(finding);
        if (!finding.would_confirm.empty()) {
            section("  What would make it certain");
            for (const Sentence& what : finding.would_confirm) {
                item(what.text(), "   - ");
            }
        }
        states(finding);
        stacks(finding);
    }

    void evidence(const Finding& finding, size_t most) {
        for (size_t i = 0; i < std::min(most, finding.evidence.size()); ++i) {
            item(finding.evidence[i].text(), "   - ");
        }
        if (finding.evidence.size() > most) {
            item(fmt::format("and {} more (--json)", finding.evidence.size() - most), "   - ");
        }
    }

    void stacks(const Finding& finding) {
        std::vector<std::pair<std::vector<int>, std::vector<std::string>>> places;  // ranks that stand alike
        for (const auto& [rank, frames] : finding.stacks) {
            std::vector<std::string> lines = folded_frames(frames, kShownFrames);
            const auto known =
                std::find_if(places.begin(), places.end(), [&](const auto& place) { return place.second == lines; });
            if (known == places.end()) {
                places.emplace_back(std::vector{rank}, std::move(lines));
            } else {
                known->first.push_back(rank);
            }
        }
        for (size_t i = 0; i < std::min(kShownStacks, places.size()); ++i) {
            const auto& [ranks, lines] = places[i];
            section(fmt::format("  Where {} {}, innermost first (titan-analyze stacks shows all)", ranks_text(ranks),
                                ranks.size() == 1 ? "is" : "are"));
            for (const std::string& line : lines) {
                item(line, "     ");
            }
        }
    }

    // As a person would draw it, one wait a line; of a long one the two ends.
    void cycle(const Finding& finding) {
        if (finding.cycle.empty()) {
            return;
        }
        section("  The cycle");
        const size_t count = finding.cycle.size();
        for (size_t i = 0; i < count; ++i) {
            if (count > kShownSteps && i == kShownSteps - 2) {
                out_ += fmt::format("     -> ... {} more ...\n", count - kShownSteps);
                i = count - 2;
            }
            const CycleStep& step = finding.cycle[i];
            item(fmt::format("rank {} waits in {} for rank {}", step.rank, step.waits_in, step.waits_for),
                 i == 0 ? "   " : "     -> ");
        }
        out_ += fmt::format("     -> back to rank {}\n", finding.cycle.front().rank);
    }

    // Ranks that do the same are one line; culprits come first and keep their times.
    void states(const Finding& finding) {
        if (finding.rank_state.empty()) {
            return;
        }
        section("  What the ranks do");
        std::map<std::string, std::vector<int>> culprits;
        for (const int rank : finding.ranks) {
            culprits[finding.brief_state.at(rank)].push_back(rank);
        }
        std::map<std::string, std::vector<int>> victims;
        for (const int rank : finding.victims) {
            victims[finding.brief_state.at(rank)].push_back(rank);
        }
        // Many groups that wait for different calls each: what they wait for is left out.
        if (culprits.size() + victims.size() > kShownStates) {
            victims.clear();
            for (const int rank : finding.victims) {
                victims[shortest_state(rank, finding)].push_back(rank);
            }
        }
        size_t shown = 0;
        for (const auto* group : {&culprits, &victims}) {
            for (const auto& [state, ranks] : *group) {
                if (shown++ < kShownStates) {
                    state_line(ranks, ranks.size() == 1 ? finding.rank_state.at(ranks.front()) : state,
                               group == &culprits);
                }
            }
        }
        if (shown > kShownStates) {
            item(fmt::format("and {} more groups of ranks (--json)", shown - kShownStates), "     ");
        }
    }

    std::string shortest_state(int rank, const Finding& finding) const {
        const Process* process = process_of_rank(run_, rank);
        return process == nullptr ? finding.brief_state.at(rank) : rank_state_without_times(run_, *process);
    }

    void state_line(const std::vector<int>& ranks, const std::string& state, bool culprit) {
        const std::string who = ranks_text(run_, ranks);
        const std::string mark = culprit ? "  => " : "     ";
        const std::string line = wrap(who + ": " + state, style_.width, mark, "       ");
        out_ += culprit ? paint("1", line.substr(0, line.size() - 1)) + "\n" : line;
    }

    void warnings() {
        if (diagnosis_.warnings.empty()) {
            return;
        }
        section("What could not be seen");
        for (size_t i = 0; i < std::min(kShownWarnings, diagnosis_.warnings.size()); ++i) {
            item(fmt::format("{}: {}", name_of(diagnosis_.warnings[i].kind), diagnosis_.warnings[i].summary));
        }
        if (diagnosis_.warnings.size() > kShownWarnings) {
            item(fmt::format("and {} more (--json)", diagnosis_.warnings.size() - kShownWarnings));
        }
    }

    void next_steps() {
        if (diagnosis_.findings.empty()) {
            return;
        }
        section("What next");
        for (const std::string& step : titan::analyzer::next_steps(run_, diagnosis_.findings.front(), style_.input)) {
            item(step);
        }
    }

    const Run& run_;
    const Diagnosis& diagnosis_;
    const TextStyle& style_;
    std::string out_;
};

}  // namespace

std::string text_report(const Run& run, const Diagnosis& diagnosis, const TextStyle& style) {
    return TextReport(run, diagnosis, style).write();
}

}  // namespace titan::analyzer
