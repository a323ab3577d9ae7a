#include "dump/dump_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dump/dump_outside.h"
#include "dump/request_dump.h"
#include "formats/layout/dump_name.h"
#include "formats/ring/ring_image.h"
#include "formats/ring/ring_process.h"
#include "host/mapped.h"
#include "host/output.h"
#include "host/words.h"
#include "node/as_user.h"
#include "node/proc.h"
#include "node/processes.h"

namespace titan::tools {
namespace {

// --- The ranks of a job that are not on this node. Their answers appear in the dump directory of the run, if it is
// shared, whichever attempt their nodes count.

class OtherNodes {
  public:
    // Created before anybody is asked: dumps that have lain there for some seconds are no answer. `local`: ranks of one
    // run and attempt.
    explicit OtherNodes(const std::vector<NodeProcess>& local);

    // Reads the directory; remembers which dumps were there and which are new.
    void look();
    const std::map<int32_t, std::string>& answers() const { return answers_; }  // paths, by rank
    const std::vector<int>& missing() const { return missing_; }
    size_t ranks() const { return answers_.size() + missing_.size(); }
    const std::filesystem::path& directory() const { return directory_; }
    // Nobody can say which of them are recorded at all.
    bool has_unknown_ranks() const { return has_unknown_ranks_; }

  private:
    using Dumps = std::map<std::string, std::filesystem::file_time_type>;  // paths and when they were written
    Dumps dumps() const;

    uint32_t owner_ = 0;
    std::filesystem::path directory_;
    Dumps before_;
    std::filesystem::file_time_type newest_old_;
    std::vector<int> missing_;
    std::map<int32_t, std::string> answers_;
    bool has_unknown_ranks_ = false;
};

namespace files = std::filesystem;

// A tracer asks other nodes at most this often, so what they wrote since is as new as it gets.
constexpr std::chrono::seconds kPauseOfAsking{5};

bool records_some_ranks_only(const NodeProcess& process) {
    const std::vector<std::string> environment = environment_of(process.header.pid);
    return std::any_of(environment.begin(), environment.end(), [](const std::string& variable) {
        constexpr std::string_view kRanks = "TITANTRACE_RANKS=";
        return variable.starts_with(kRanks) && variable.size() > kRanks.size();
    });
}

OtherNodes::OtherNodes(const std::vector<NodeProcess>& local) {
    std::set<int32_t> here;
    int32_t world_size = 0;
    for (const NodeProcess& process : local) {
        here.insert(process.header.rank);
        world_size = std::max(world_size, format::plausible_rank(process.header.world_size));
        has_unknown_ranks_ = has_unknown_ranks_ || records_some_ranks_only(process);
        const std::string own(format::fixed_text(process.header.dump_directory));
        if (directory_.empty() && own.starts_with('/')) {
            owner_ = process.directory.owner;
            directory_ = files::path(own) / safe_file_name(process.run());
        }
    }
    for (int32_t rank = 0; rank < world_size && !has_unknown_ranks_; ++rank) {
        if (!here.contains(rank)) {
            missing_.push_back(rank);
        }
    }
    before_ = missing_.empty() ? before_ : dumps();
    newest_old_ = files::file_time_type::clock::now() - kPauseOfAsking;
}

OtherNodes::Dumps OtherNodes::dumps() const {
    Dumps found;
    if (directory_.empty()) {
        return found;
    }
    const AsUser as_owner(owner_);
    std::error_code failed;
    for (files::recursive_directory_iterator item(directory_, failed), end; !failed && item != end;
         item.increment(failed)) {
        std::error_code ignored;
        if (format::rank_of_dump_name(item->path().filename().c_str()) >= 0) {
            found[item->path().string()] = item->last_write_time(ignored);
        }
    }
    return found;
}

void OtherNodes::look() {
    for (const auto& [path, written] : dumps()) {
        const auto known = before_.find(path);
        const int32_t whose = format::rank_of_dump_name(files::path(path).filename().c_str());
        const auto rank = std::lower_bound(missing_.begin(), missing_.end(), whose);
        const bool is_new = known == before_.end() || known->second != written || written > newest_old_;
        if (is_new && rank != missing_.end() && *rank == whose) {
            answers_[whose] = path;
            missing_.erase(rank);
        }
    }
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{20};
constexpr int kPausesPerLook = 10;  // between looks at /proc and at the dumps of other nodes
constexpr std::chrono::milliseconds kQuiet{500};
constexpr std::chrono::seconds kPauseOfLines{5};
constexpr size_t kNamed = 4;  // most processes named in one message

// Progress for people who wait: one line that is drawn over on a terminal, else a line every few seconds.
class Progress {
  public:
    Progress() = default;
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(const std::string& text) {
        const auto now = Clock::now();
        if (text == last_ || (!terminal_ && !last_.empty() && now - shown_ < kPauseOfLines)) {
            return;
        }
        last_ = text;
        shown_ = now;
        drawn_ = terminal_;
        say("{}titan-dump: {}{}", terminal_ ? "\r\033[K" : "", text, terminal_ ? "" : "\n");
    }
    // Call before anything else is written to the same terminal.
    void clear() {
        if (drawn_) {
            say("\r\033[K");
            drawn_ = false;
            last_.clear();
        }
    }

  private:
    const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
    bool drawn_ = false;
    std::string last_;
    Clock::time_point shown_;
};

struct Target {
    DumpOutcome outcome;
    std::optional<Question> question;  // while it is open
};

std::string stop_text(Halt halt) {
    const bool plain = halt == Halt::kStopped || halt == Halt::kNone;
    return plain ? "stopped" : halt_text(halt);
}

// The reason why the process cannot answer, "" if it can.
std::string obstacle(const NodeProcess& process) {
    switch (process.presence) {
        case Presence::kStopped: return "is " + stop_text(halt_of_process(process.header.pid));
        case Presence::kZombie: return "is a zombie";
        case Presence::kGone: return "is dead";
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
        outcome.why = fmt::format("{}, and {}", why, printable(saved.error().text()));
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
    outcome.path = printable(target.question->path());
    outcome.how = written ? How::kAnswered : How::kFailed;
    if (!written) {
        outcome.why = "could not write its dump anywhere; its stderr says why";
    }
    target.question.reset();
}

std::string seconds_since(Clock::time_point began) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began).count();
    return seconds == 0 ? std::string() : fmt::format(" for {} s", seconds);
}

std::string waiting_text(const std::vector<Target>& targets, const OtherNodes* others, Clock::time_point began) {
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
    const size_t asked = targets.size() + (others != nullptr ? others->ranks() : 0);
    const size_t elsewhere = others != nullptr ? others->missing().size() : 0;
    if (elsewhere != 0) {
        names += fmt::format("{}{} of other nodes", names.empty() ? "" : ", ", ranks_text(others->missing()));
    }
    return fmt::format("{} of {} {} dumped, waiting{} for {}", asked - open - elsewhere, asked,
                       verb_form(asked, "process has", "ranks have"), seconds_since(began), names);
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
        if (!obstacle(process).empty()) {
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
        say("titan-dump: {}\n", problem);
    }
}

// Looks at the processes that can no longer answer.
void look_at_open(std::vector<Target>& targets, const DumpOptions& options) {
    for (Target& target : targets) {
        if (!target.question) {
            continue;
        }
        NodeProcess& process = target.outcome.process;
        process.presence = format::presence_of(process.header);
        if (const std::string why = obstacle(process); !why.empty() && !target.question->is_answered()) {
            save_from_outside(target, why, options);
        }
    }
}

void wait_for_answers(std::vector<Target>& targets, OtherNodes* others, Clock::time_point began,
                      const DumpOptions& options) {
    Progress progress;
    const auto deadline = began + std::chrono::duration<double>(options.timeout_s);
    for (int pauses = 1; any_open(targets); ++pauses) {
        for (Target& target : targets) {
            if (target.question && target.question->is_answered()) {
                take_answer(target);
            }
        }
        if (pauses % kPausesPerLook == 0) {
            look_at_open(targets, options);
            if (any_open(targets) && Clock::now() - began > kQuiet) {
                progress.show(waiting_text(targets, others, began));
            }
        }
        if (Clock::now() > deadline) {
            break;
        }
        std::this_thread::sleep_for(kPause);
    }
}

// They look for the request every two seconds.
void wait_for_other_nodes(const std::vector<Target>& targets, OtherNodes& others, Clock::time_point began,
                          const DumpOptions& options) {
    Progress progress;
    const auto deadline = began + std::chrono::duration<double>(options.nodes_timeout_s);
    others.look();
    while (!others.missing().empty() && Clock::now() < deadline) {
        if (Clock::now() - began > kQuiet) {
            progress.show(waiting_text(targets, &others, began));
        }
        std::this_thread::sleep_for(kPause * kPausesPerLook);
        others.look();
    }
}

bool any_answered(const std::vector<Target>& targets) {
    return std::any_of(targets.begin(), targets.end(),
                       [](const Target& target) { return target.outcome.how == How::kAnswered; });
}

// Explains why ranks of other nodes have no dump that is visible here.
std::string unanswered_text(const OtherNodes& others, bool asked, const DumpOptions& options) {
    if (!asked) {
        return fmt::format(
            "no rank of this node answered, so {} of the job's other nodes {} not asked: run titan-dump there",
            ranks_text(others.missing()), verb_form(others.missing().size(), "was", "were"));
    }
    const bool known = !others.directory().empty();
    return fmt::format(
        "{} of other nodes did not write {} within {:g} s: {}, or the nodes do not share the directory; titan-dump on "
        "those nodes shows which",
        ranks_text(others.missing()),
        known ? "to " + printable(others.directory().string()) : "a dump that is visible here", options.nodes_timeout_s,
        verb_form(others.missing().size(), "it is dead or stopped", "they are dead or stopped"));
}

}  // namespace

DumpResult dump_processes(const std::vector<NodeProcess>& processes, bool other_nodes, const DumpOptions& options) {
    const auto began = Clock::now();
    std::optional<OtherNodes> others;
    if (other_nodes && !processes.empty()) {
        others.emplace(processes);
    }
    std::vector<Target> targets = mapped(processes, [](const NodeProcess& process) -> Target {
        return {{process, How::kFailed, {}, {}, {}, {}}, {}};
    });
    ask_all(targets, other_nodes, options);
    for (Target& target : targets) {
        if (const std::string why = obstacle(target.outcome.process); !why.empty()) {
            save_from_outside(target, why, options);
        }
    }
    wait_for_answers(targets, others ? &*others : nullptr, began, options);
    for (Target& target : targets) {
        if (target.question) {
            save_from_outside(target, fmt::format("did not answer within {:g} s", options.timeout_s), options);
        }
    }
    DumpResult result;
    if (others && others->has_unknown_ranks()) {
        result.problems.push_back(
            "TITANTRACE_RANKS is set, so which ranks of other nodes are recorded is not known: they were asked, "
            "and are not waited for");
    } else if (others && others->ranks() != 0) {
        const bool asked = any_answered(targets);
        if (asked) {
            wait_for_other_nodes(targets, *others, began, options);
        }
        result.other_answers = others->answers();
        result.unanswered = others->missing();
        if (!result.unanswered.empty()) {
            result.problems.push_back(unanswered_text(*others, asked, options));
        }
    }
    for (Target& target : targets) {
        result.outcomes.push_back(std::move(target.outcome));
    }
    return result;
}

}  // namespace titan::tools
