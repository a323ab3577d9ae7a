// Slurm's messages at the end of a task, in the output of srun or sbatch:
//
//   srun: error: node-3: task 5: Killed
//   srun: error: node-3: tasks 4,6-7: Exited with exit code 1
//   slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have been OOM Killed.
//
// and its accounting, as `sacct --parsable2 (or --parsable) --format=JobID,State,ExitCode,NodeList,...` prints it.
// sacct knows steps and no tasks, so its lines name no rank.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>

#include "readers.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kTaskEnded = ": task";
constexpr std::string_view kOutOfMemory = "Out Of Memory";
constexpr std::string_view kExited = "Exited with exit code ";
constexpr std::string_view kOomEvent = " oom_kill event";
constexpr size_t kMaxTasksOfALine = 1024;

// The signal with this description of strsignal(), as srun prints it.
int32_t signal_named(std::string_view name) {
    name = name.substr(0, name.find(" (core dumped)"));
    for (int32_t number = 1; number < NSIG; ++number) {
        const char* known = ::sigdescr_np(number);
        if (known != nullptr && name == known) {
            return number;
        }
    }
    return 0;
}

// Takes "4,6-7" off the beginning of a text.
std::vector<int32_t> take_tasks(std::string_view& text) {
    std::vector<int32_t> tasks;
    while (const auto first = take_number(text)) {
        int32_t last = *first;
        if (text.starts_with("-")) {
            text.remove_prefix(1);
            last = take_number(text).value_or(*first);
        }
        for (int64_t task = *first; task >= 0 && task <= last && tasks.size() < kMaxTasksOfALine; ++task) {
            tasks.push_back(static_cast<int32_t>(task));
        }
        if (!text.starts_with(",")) {
            break;
        }
        text.remove_prefix(1);
    }
    return tasks;
}

// "srun: error: node-3: tasks 4,6-7: Killed"; several nodes are "node[3-4]".
void read_task_line(std::string_view line, std::vector<Testimony>& into) {
    std::string_view rest = line;
    if (!take_until(rest, "srun: error: ")) {
        return;
    }
    const auto host = take_until(rest, kTaskEnded);
    if (!host || host->empty() || host->find(' ') != std::string_view::npos) {
        return;
    }
    rest.remove_prefix(rest.starts_with("s") ? 1 : 0);
    rest = without_spaces(rest);
    const std::vector<int32_t> tasks = take_tasks(rest);
    if (tasks.empty() || !rest.starts_with(": ")) {
        return;
    }
    rest = without_spaces(rest.substr(2));
    Testimony said;
    said.claim = Claim::kEnded;
    said.host = host->find('[') == std::string_view::npos ? *host : std::string_view();
    if (rest.starts_with(kExited)) {
        rest.remove_prefix(kExited.size());
        said.exit_status = take_number(rest).value_or(-1);
    } else if (rest == kOutOfMemory) {
        said.out_of_memory = true;
        said.signal = SIGKILL;
    } else {
        said.signal = signal_named(rest);
    }
    if (said.exit_status <= 0 && said.signal == 0) {
        return;
    }
    for (const int32_t task : tasks) {
        said.task = task;
        said.text = fmt::format("task {} on {}: {}", task, *host, ending_text(said));
        into.push_back(said);
    }
}

// The line names no task: it is evidence for deaths on that job's nodes.
void read_oom_line(std::string_view line, std::vector<Testimony>& into) {
    const size_t place = line.find("slurmstepd");
    if (place == std::string_view::npos || !has(line, kOomEvent)) {
        return;
    }
    Testimony said;
    said.out_of_memory = true;
    std::string_view rest = line.substr(place);
    if (take_until(rest, "slurmstepd-")) {  // slurmstepd-node-3: error: ...
        said.host = rest.substr(0, rest.find(':'));
    }
    said.text = line.substr(place);
    into.push_back(std::move(said));
}

// The step whose rest is ended from here on, "17.0"; empty where the line tells of none.
std::string_view ended_step(std::string_view line) {
    const bool by_step = has(line, "slurmstepd") && has(line, " CANCELLED AT ");
    if (!take_until(line, by_step ? "*** STEP " : "Terminating StepId=")) {
        return {};
    }
    return line.substr(0, line.find_first_not_of("0123456789."));
}

// Statements about one step: those before the rest of it was ended come first.
class StepOfLog {
  public:
    explicit StepOfLog(size_t begin) : begin_(begin) {}

    bool is_other(std::string_view step) const { return !step_.empty() && step_ != step; }
    bool is_named_in(std::string_view line) const { return !step_.empty() && line.ends_with("StepId=" + step_); }
    void end(std::string_view step, size_t end) {
        own_ends_ = step_.empty() ? end : own_ends_;
        step_ = step;
    }
    void finish(int32_t part, size_t end, std::vector<Testimony>& said) const {
        size_t own_ends = 0;
        for (size_t i = begin_; i < end; ++i) {
            said[i].part = part;
            said[i].run = step_.empty() ? std::string() : fmt::format("slurm-{}", step_);
            own_ends += said[i].claim == Claim::kEnded && i < own_ends_ ? 1 : 0;
        }
        for (size_t i = begin_; i < end && !step_.empty(); ++i) {
            const EndOrder own = own_ends == 1 ? EndOrder::kFirst : EndOrder::kUnknown;
            said[i].order = said[i].claim != Claim::kEnded ? EndOrder::kUnknown
                            : i < own_ends_                ? own
                                                           : EndOrder::kAfterOthers;
        }
    }

  private:
    size_t begin_;
    size_t own_ends_ = 0;
    std::string step_;
};

std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    while (auto field = take_until(line, "|")) {
        fields.push_back(*field);
    }
    fields.push_back(line);
    return fields;
}

bool is_sacct_head(std::string_view line) {
    return line.starts_with("JobID") && line.find('|') != std::string_view::npos && has(line, "|State");
}

void read_sacct_line(const std::vector<std::string_view>& names, std::string_view line, std::vector<Testimony>& into) {
    const std::vector<std::string_view> fields = fields_of(line);
    const auto field = [&](std::string_view name) {
        const auto place = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
        return place < fields.size() && place < names.size() ? fields[place] : std::string_view();
    };
    const std::string_view state = field("State");
    static constexpr std::string_view kFailures[] = {"FAILED",    "OUT_OF_MEMORY", "NODE_FAIL", "TIMEOUT",
                                                     "CANCELLED", "PREEMPTED",     "BOOT_FAIL", "DEADLINE"};
    if (std::ranges::none_of(kFailures, [&](std::string_view failure) { return state.starts_with(failure); })) {
        return;
    }
    Testimony said;
    said.out_of_memory = state == "OUT_OF_MEMORY";
    said.text = fmt::format("{} {}", field("JobID"), state);
    for (const std::string_view name : {"ExitCode", "NodeList", "Start", "End"}) {
        if (!field(name).empty()) {
            said.text += fmt::format(", {} {}", name, field(name));
        }
    }
    into.push_back(std::move(said));
}

}  // namespace

bool is_slurm_log(const WitnessFile& file) {
    return has(file.text, "srun: error: ") || (has(file.text, "slurmstepd") && has(file.text, kOomEvent));
}

void read_slurm_log(const WitnessFile& file, std::vector<Testimony>& into) {
    Lines lines(file.text);
    StepOfLog step(into.size());
    size_t told = into.size();  // when a line last named a step
    int32_t part = 0;
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        read_task_line(line, into);
        read_oom_line(line, into);
        const std::string_view ended = ended_step(line);
        if (ended.empty()) {
            told = step.is_named_in(line) ? into.size() : told;
            continue;
        }
        if (step.is_other(ended)) {
            step.finish(part++, told, into);
            step = StepOfLog(told);
        }
        step.end(ended, into.size());
        told = into.size();
    }
    step.finish(part, into.size(), into);
}

bool is_sacct(const WitnessFile& file) { return is_sacct_head(file.text.substr(0, file.text.find('\n'))); }

void read_sacct(const WitnessFile& file, std::vector<Testimony>& into) {
    Lines lines(file.text);
    std::vector<std::string_view> names;
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        if (is_sacct_head(line)) {
            names = fields_of(line);
        } else {
            read_sacct_line(names, line, into);
        }
    }
}

// --- The message of Open MPI's mpirun about the first process that failed, before it ends the others:
//
//   mpirun noticed that process rank 2 with PID 0 on node node-3 exited on signal 9 (Killed).
//
// or, for an exit status:
//
//   mpirun detected that one or more processes exited with non-zero status, thus causing
//   the job to be terminated. The first process to do so was:
//
//     Process name: [[61422,1],2]
//     Exit code:    3

namespace {

constexpr std::string_view kOnSignal = "noticed that process rank ";
constexpr std::string_view kFirstToExit = "The first process to do so was:";

void read_signal_line(std::string_view line, std::vector<Testimony>& into) {
    Testimony said;
    if (!take_until(line, kOnSignal)) {
        return;
    }
    said.rank = take_rank(line);
    if (take_until(line, " with PID ")) {
        said.pid = take_number(line).value_or(0);
    }
    if (take_until(line, " on node ")) {
        said.host = line.substr(0, line.find(' '));
    }
    if (said.rank < 0 || !take_until(line, " exited on signal ")) {
        return;
    }
    said.signal = signal_of(take_number(line).value_or(0));
    if (said.signal != 0) {
        into.push_back(std::move(said));
    }
}

}  // namespace

bool is_mpirun_log(const WitnessFile& file) { return has(file.text, kOnSignal) || has(file.text, kFirstToExit); }

void read_mpirun_log(const WitnessFile& file, std::vector<Testimony>& into) {
    const size_t before = into.size();
    Lines lines(file.text);
    Testimony exited;
    bool first_to_exit = false;
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        read_signal_line(line, into);
        first_to_exit = first_to_exit || has(line, kFirstToExit);
        std::string_view rest = line;
        if (first_to_exit && take_until(rest, "Process name: [[") && take_until(rest, "],")) {
            exited.rank = take_rank(rest);
        } else if (first_to_exit && take_until(rest, "Exit code:")) {
            rest = without_spaces(rest);
            exited.exit_status = take_number(rest).value_or(-1);
            if (exited.rank >= 0 && exited.exit_status > 0) {
                into.push_back(exited);
            }
            first_to_exit = false;
        }
    }
    for (size_t i = before; i < into.size(); ++i) {
        into[i].claim = Claim::kEnded;
        into[i].order = EndOrder::kFirst;
        into[i].text = fmt::format("rank {}: {}, first of all", into[i].rank, ending_text(into[i]));
    }
}

}  // namespace titan::analyzer
