// Findings, the result of a diagnosis. The kinds come from one table, findings.def.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "clocks.h"
#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

enum class Severity : uint8_t { finding, warning };
enum class Clue : uint8_t { none, place, calls };

enum class FindingKind : uint8_t {
#define FINDING_KIND(id, ...) id,
#include "findings.def"
};

struct FindingKindRow {
    FindingKind kind;
    std::string_view name;
    Severity severity;
    Clue clue;
    std::string_view meaning;
    std::string_view remedy;
};

inline constexpr auto kFindingKinds = std::to_array<FindingKindRow>({
#define FINDING_KIND(id, name, severity, clue, meaning, remedy) \
    {FindingKind::id, name, Severity::severity, Clue::clue, meaning, remedy},
#include "findings.def"
});

constexpr const FindingKindRow& row_of(FindingKind kind) { return kFindingKinds[static_cast<size_t>(kind)]; }
constexpr std::string_view name_of(FindingKind kind) { return row_of(kind).name; }

static_assert([] {
    for (const auto& row : kFindingKinds) {
        if (row.name.empty() || row.meaning.empty() || row.remedy.empty() || row_of(row.kind).name != row.name) {
            return false;
        }
    }
    return true;
}());

enum class Confidence : uint8_t { kPossible, kLikely, kCertain };

constexpr std::string_view name_of(Confidence confidence) {
    return confidence == Confidence::kCertain ? "certain" : confidence == Confidence::kLikely ? "likely" : "possible";
}

// One step around a ring of waits.
struct CycleStep {
    int rank = -1;
    Sentence waits_in;
    int waits_for = -1;
};

struct StackFrame {
    std::string text;
    std::string library;  // library that it came with; empty: the program's own
};

// The calls were played as the finding says that they should have been.
struct Replay {
    std::string options;       // of `titan-analyze whatif`: the edits
    std::vector<int> waiting;  // ranks in the waits that the finding explains
    std::vector<int> still;    // those that would wait all the same
};

struct Finding {
    FindingKind kind{};
    std::vector<int> ranks;    // culprits, global
    std::vector<int> victims;  // ranks that wait because of them
    uint32_t communicator = kNoIndex;
    uint64_t sequence = kNoSequence;
    std::string op;
    Confidence confidence = Confidence::kCertain;
    Sentence summary;
    std::vector<Sentence> evidence;
    std::vector<Sentence> would_confirm;  // evidence that would make it certain; empty if it is
    std::vector<CycleStep> cycle;         // the last waits for the first; empty where there is none
    std::map<int, std::string> rank_state;
    std::map<int, std::string> brief_state;         // the same without times, to fold ranks that do the same
    std::map<int, std::vector<StackFrame>> stacks;  // positions of the culprits, innermost frames first
    bool hangs = true;                              // false: wrong, but nobody waits because of it
    bool skipped = false;      // the culprit went past the call: it is not where the program wants it
    std::vector<int> waiting;  // ranks in the very call that the culprit has not made
    int64_t since_ns = 0;      // when the first of the victims began to wait
    int64_t waited_ns = 0;     // longest wait there, by the waiter's own clock, 0 unknown
    double cost_share = 0;     // of the time of a step that it costs; of slow jobs alone
    std::optional<Replay> replay;
    std::string_view next;  // what to do about this one, where its kind alone does not tell

    std::string_view remedy() const { return next.empty() ? row_of(kind).remedy : next; }
    bool since_known() const { return hangs && since_ns > 0 && since_ns < kLatestNs; }
    // What a rank does of which no dump and no ring is there.
    void note_no_record(int rank) { rank_state[rank] = brief_state[rank] = "no dump and no ring: unknown"; }
    // Adds a fact that the finding depends on and that is not known, put as what would settle it: the finding is no
    // surer than its weakest fact. The facts are in diagnose/unknowns.def.
    void depends_on(const Sentence& unknown, Confidence at_most = Confidence::kLikely) {
        confidence = std::min(confidence, at_most);
        if (std::find(would_confirm.begin(), would_confirm.end(), unknown) == would_confirm.end()) {
            would_confirm.push_back(unknown);
        }
    }
};

inline bool any_hangs(const std::vector<Finding>& findings) {
    return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.hangs; });
}

// A wait that is longer than usual and no hang yet.
struct Pending {
    std::vector<int> ranks;    // ranks that wait
    std::vector<int> missing;  // ranks they wait for, as far as their global ranks are known
    uint32_t communicator = kNoIndex;
    uint64_t sequence = kNoSequence;  // calls only, not creations
    std::string op;
    int64_t since_ns = 0;
    int64_t waited_ns = 0;
    int64_t hang_after_ns = 0;  // 0: never
    Sentence summary;
};

struct Diagnosis {
    std::vector<Finding> findings;  // the head one first
    std::vector<Pending> waiting;   // the longest first; only where no finding hangs
    Clocks clocks;                  // clocks of the hosts
    std::vector<Warning> warnings;
    double step_ns = 0;       // how long a step takes, in the mean, as the replay counts it; 0: it has not counted any
    std::string ended;        // how a job ended of which nothing is left to wait for; empty if it goes on, or failed
    std::string slow;         // what costs a step most, where it costs less than a finding must; for people
    std::string metrics;      // those that were no finite numbers for a while; for people
    std::string cannot_tell;  // reason for no verdict, neither a finding nor "nothing wrong"; empty if there is one
};

// What a diagnosis comes to, as programs read it.
enum class Outcome : uint8_t { kVerdict, kCannotTell, kWaiting, kNothingWrong };

inline Outcome outcome_of(const Diagnosis& diagnosis) {
    return !diagnosis.findings.empty()      ? Outcome::kVerdict
           : !diagnosis.cannot_tell.empty() ? Outcome::kCannotTell
           : !diagnosis.waiting.empty()     ? Outcome::kWaiting
                                            : Outcome::kNothingWrong;
}

constexpr std::string_view name_of(Outcome outcome) {
    constexpr auto kNames = std::to_array<std::string_view>({"verdict", "cannot_tell", "waiting", "nothing_wrong"});
    return kNames[static_cast<size_t>(outcome)];
}

struct DiagnoseOptions {
    double hang_after_s = 0;   // 0: derived from how long this run usually waits
    double slow_share = 0.05;  // of a step: what costs more is a finding

    // 0: nothing was asked.
    int64_t asked_hang_after_ns() const {
        return hang_after_s > 0 ? static_cast<int64_t>(std::min(hang_after_s, 1e9) * 1e9) : 0;
    }
};

}  // namespace titan::analyzer
