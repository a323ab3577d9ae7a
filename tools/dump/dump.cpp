#include "dump/dump.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "analyzer/text.h"
#include "dump/ask.h"
#include "dump/outside.h"
#include "dump/progress.h"

namespace titan::tools {
namespace {

using Clock = std::chrono::steady_clock;
using format::Result;

constexpr std::chrono::milliseconds kPause{20};
constexpr int kPausesPerLook = 10;  // at /proc
constexpr size_t kNamed = 4;        // of those that are waited for

struct Target {
    DumpOutcome outcome;
    std::optional<Question> question;  // while it is open
};

// Why the process cannot answer, "" if it can.
std::string obstacle(Presence presence) {
    switch (presence) {
        case Presence::kStopped: return "is stopped";
        case Presence::kZombie: return "is a zombie";
        case Presence::kGone: return "is gone";
        case Presence::kUnknown: return "is of another machine or an earlier boot";
        default: return {};
    }
}

void save_from_outside(Target& target, const std::string& why, const DumpOptions& options) {
    target.question.reset();
    DumpOutcome& outcome = target.outcome;
    outcome.why = why;
    if (outcome.process.is_gone() && options.directory.empty() && claim_gone(outcome.process) == Claim::kOthers) {
        outcome.path = newest_dump_of(outcome.process);
        if (!outcome.path.empty()) {
            outcome.how = How::kSavedBefore;
            return;
        }
    }
    Result<OutsideResult> saved = dump_from_outside(outcome.process, why, options.directory);
    if (!saved) {
        outcome.how = How::kFailed;
        outcome.why = fmt::format("{}, and {}", why, analyzer::printable(saved.error().text()));
        return;
    }
    outcome.how = How::kOutside;
    outcome.path = saved->path;
    outcome.threads = saved->threads;
    outcome.problem = saved->problem;
}

void take_answer(Target& target) {
    DumpOutcome& outcome = target.outcome;
    const bool written = target.question->was_written();
    outcome.path = analyzer::printable(target.question->path());
    outcome.how = written ? How::kAnswered : How::kFailed;
    if (!written) {
        outcome.why = "could not write its dump anywhere; its stderr says why";
    }
    target.question.reset();
}

std::string waiting_text(const std::vector<Target>& targets) {
    size_t open = 0;
    std::string names;
    for (const Target& target : targets) {
        if (target.question && ++open <= kNamed) {
            names += (names.empty() ? "" : ", ") + target.outcome.process.text();
        }
    }
    if (open > kNamed) {
        names += fmt::format(" and {} more", open - kNamed);
    }
    return fmt::format("{} of {} {} dumped, waiting for {}", targets.size() - open, targets.size(),
                       targets.size() == 1 ? "process has" : "ranks have", names);
}

bool any_open(const std::vector<Target>& targets) {
    for (const Target& target : targets) {
        if (target.question) {
            return true;
        }
    }
    return false;
}

void ask_all(std::vector<Target>& targets, bool other_nodes, const DumpOptions& options) {
    std::vector<NodeProcess> asked;
    for (Target& target : targets) {
        const NodeProcess& process = target.outcome.process;
        if (!obstacle(process.presence).empty()) {
            continue;
        }
        Result<Question> question = Question::ask(process, other_nodes);
        if (question) {
            target.question.emplace(std::move(*question));
            asked.push_back(process);
        } else {
            save_from_outside(target, fmt::format("cannot be asked: {}", question.error().text()), options);
        }
    }
    for (const std::string& problem : wake_jobs(asked)) {
        fmt::print(stderr, "titan-dump: {}\n", problem);
    }
}

// Those that cannot answer any more.
void look_at_open(std::vector<Target>& targets, const DumpOptions& options) {
    for (Target& target : targets) {
        if (!target.question) {
            continue;
        }
        NodeProcess& process = target.outcome.process;
        process.presence = presence_of(process.header);
        if (const std::string why = obstacle(process.presence); !why.empty() && !target.question->is_answered()) {
            save_from_outside(target, why, options);
        }
    }
}

void wait_for_answers(std::vector<Target>& targets, const DumpOptions& options) {
    Progress progress;
    const auto began = Clock::now();
    const auto deadline = began + std::chrono::duration<double>(options.timeout_s);
    for (int pauses = 1; any_open(targets); ++pauses) {
        for (Target& target : targets) {
            if (target.question && target.question->is_answered()) {
                take_answer(target);
            }
        }
        if (pauses % kPausesPerLook == 0) {
            look_at_open(targets, options);
            if (any_open(targets) && Clock::now() - began > std::chrono::milliseconds(500)) {
                progress.show(waiting_text(targets));
            }
        }
        if (Clock::now() > deadline) {
            break;
        }
        std::this_thread::sleep_for(kPause);
    }
}

}  // namespace

std::vector<DumpOutcome> dump_processes(const std::vector<NodeProcess>& processes, bool other_nodes,
                                        const DumpOptions& options) {
    std::vector<Target> targets;
    for (const NodeProcess& process : processes) {
        targets.push_back({{process, How::kFailed, {}, {}, {}, {}}, {}});
    }
    ask_all(targets, other_nodes, options);
    for (Target& target : targets) {
        if (const std::string why = obstacle(target.outcome.process.presence); !why.empty()) {
            save_from_outside(target, why, options);
        }
    }
    wait_for_answers(targets, options);
    std::vector<DumpOutcome> outcomes;
    for (Target& target : targets) {
        if (target.question) {
            save_from_outside(target, fmt::format("did not answer within {:g} s", options.timeout_s), options);
        }
        outcomes.push_back(std::move(target.outcome));
    }
    return outcomes;
}

}  // namespace titan::tools
