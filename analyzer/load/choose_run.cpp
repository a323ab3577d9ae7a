#include "choose_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "host/mapped.h"
#include "host/words.h"
#include "structured_log.h"

namespace titan::analyzer {
namespace {

RunKey key_of(const Process& process) { return {process.run, process.attempt}; }

// By the names of its directories.
bool is_wanted(const LoadOptions& options, const std::string& run, const std::string& attempt) {
    return (options.run.empty() || run == options.run) &&
           (!options.attempt || attempt == std::to_string(*options.attempt));
}

// When the first of them started, INT64_MAX unknown.
int64_t start_of(const std::vector<Process>& processes, const std::optional<RunKey>& only) {
    int64_t started_ns = INT64_MAX;
    for (const Process& process : processes) {
        if (process.started_ns > 0 && (!only || key_of(process) == *only)) {
            started_ns = std::min(started_ns, process.started_ns);
        }
    }
    return started_ns;
}

// What lies there was seen, and why it is not read is worth a word.
std::string what_else_is_there(const Discovery& discovery, bool logs_are_read) {
    const auto there = [](size_t count, const char* noun, std::string_view first) {
        return fmt::format("; {} {} there ({}{})", counted(count, noun), verb_form(count, "is", "are"),
                           count == 1 ? "" : "one is ", printable(base_name(first)));
    };
    if (discovery.witnesses.empty()) {
        return discovery.other_files == 0 ? std::string()
                                          : there(discovery.other_files, "other file", discovery.first_other);
    }
    const size_t logs = discovery.witnesses.size();
    return there(logs, "log", discovery.witnesses.front()) +
           (logs_are_read
                ? fmt::format(": none of {} lines is one that titan-analyze knows, such as those of torchrun, "
                              "Slurm, mpirun, NCCL and PyTorch's watchdog",
                              verb_form(logs, "its", "their"))
                : ": titan-analyze without a command reads logs, too");
}

}  // namespace

Result<std::vector<CandidateGroup>> choose_groups(Discovery& discovery, const LoadOptions& options) {
    std::vector<CandidateGroup> chosen;
    const bool newest_is_flat = !discovery.groups.empty() && discovery.groups.front().attempt.empty();
    for (CandidateGroup& group : discovery.groups) {
        const bool flat = group.attempt.empty();
        if (options.run.empty() && !options.attempt) {
            if (chosen.empty() || (newest_is_flat && flat)) {
                chosen.push_back(std::move(group));
            }
            continue;
        }
        if (flat || is_wanted(options, group.run, group.attempt)) {
            chosen.push_back(std::move(group));
        }
    }
    if (!chosen.empty()) {
        return chosen;
    }
    if (discovery.groups.empty()) {
        const std::string detail = discovery.warnings.empty() ? "" : "; " + discovery.warnings.front().summary;
        const char* const logs =
            discovery.logs.empty() ? ""
                                   : "; there are logs of torchtitan's structured logger: summary, metrics, timeline, "
                                     "compare, sql, report and show --markers of titan-analyze read them";
        return Error("no dumps (*.titan), rings (*.ring) or journals (*.journal) found" + detail + logs +
                     what_else_is_there(discovery, options.witnesses_alone));
    }
    const auto name_of = [](const CandidateGroup& group) { return printable(group.run) + "/" + group.attempt; };
    return Error("no such run or attempt; found: " + listed(mapped(discovery.groups, name_of)));
}

std::vector<CandidateGroup> attempts_beside(Discovery& discovery, const CandidateGroup& chosen,
                                            const std::vector<Process>& processes, const LoadOptions& options) {
    constexpr int64_t kClocksApartNs = 60'000'000'000;  // a file server's and the ranks'
    std::vector<CandidateGroup> beside;
    if (options.attempt || options.start != 0 || chosen.attempt.empty()) {
        return beside;
    }
    const bool of_other_hosts = processes.empty() && !options.only_host.empty();
    const int64_t started_ns = of_other_hosts ? 0 : start_of(processes, std::nullopt) - kClocksApartNs;
    for (CandidateGroup& group : discovery.groups) {
        if (group.run == chosen.run && !is_taken(group) && group.newest_ns >= started_ns) {
            beside.push_back(std::move(group));
        }
    }
    return beside;
}

std::vector<Process> choose_run(std::vector<Process> processes, const LoadOptions& options,
                                std::vector<Warning>& warnings) {
    std::map<RunKey, int64_t> newest;
    for (const Process& process : processes) {
        int64_t& time = newest[key_of(process)];
        time = std::max(time, process.now_ns);
    }
    const auto fits = [&](const RunKey& key) {
        const bool named =
            std::ranges::any_of(newest, [&](const auto& item) { return item.first.first == options.run; });
        return (options.run.empty() || !named || key.first == options.run) &&
               (!options.attempt || key.second == *options.attempt);
    };
    const RunKey* best = nullptr;
    for (const auto& [key, time] : newest) {
        if (fits(key) && (best == nullptr || time > newest[*best])) {
            best = &key;
        }
    }
    if (best == nullptr || newest.size() == 1) {
        return best == nullptr ? std::vector<Process>() : std::move(processes);
    }
    const RunKey wanted = *best;
    const int64_t started_ns = start_of(processes, wanted);
    const auto rest = std::partition(processes.begin(), processes.end(), [&](const Process& process) {
        const bool beside = !options.attempt && process.run == wanted.first && process.now_ns >= started_ns;
        return key_of(process) == wanted || beside;
    });
    if (rest == processes.end()) {
        return processes;
    }
    warnings.push_back(
        {WarningKind::kOtherRun,
         {},
         fmt::format("{} more {} of {} or attempts in there, left out (--list-runs shows them)", processes.end() - rest,
                     plural(static_cast<uint64_t>(processes.end() - rest), "file"),
                     counted(newest.size() - 1, "other run"))});
    processes.erase(rest, processes.end());
    return processes;
}

std::optional<RunKey> key_of_run(const std::vector<Process>& processes, const std::vector<CandidateGroup>& groups) {
    if (!processes.empty()) {
        return key_of(processes.front());
    }
    if (groups.empty() || groups.front().attempt.empty()) {
        return std::nullopt;
    }
    return RunKey(groups.front().run, static_cast<int32_t>(std::strtol(groups.front().attempt.c_str(), nullptr, 10)));
}

bool is_newer(const RingRun& run, const std::vector<CandidateGroup>& groups) {
    constexpr int64_t kLaterNs = 5'000'000'000;
    return std::ranges::all_of(groups, [&](const CandidateGroup& group) {
        const bool same = group.run == safe_file_name(run.run) && group.attempt == std::to_string(run.attempt);
        return !same && !group.attempt.empty() && group.newest_ns + kLaterNs < run.newest_ns;
    });
}

int64_t start_of(const std::vector<Process>& processes) { return start_of(processes, std::nullopt); }

// --- logs of torchtitan's logger

Result<ChosenLogs> choose_logs(const std::vector<std::string>& paths, const LoadOptions& options) {
    std::vector<StructuredLog> logs;
    ChosenLogs chosen;
    for (const std::string& path : paths) {
        Result<StructuredLog> log = open_structured_log(path);
        if (log) {
            logs.push_back(std::move(*log));
        } else {
            chosen.warnings.push_back(
                {WarningKind::kDamagedFile, {}, log.error().within(printable(base_name(path))).text() + "; skipped"});
        }
    }
    if (logs.empty()) {
        return Error(chosen.warnings.empty() ? "no log is there" : chosen.warnings.front().summary);
    }
    std::ranges::stable_sort(logs,
                             [](const StructuredLog& a, const StructuredLog& b) { return a.first_ns < b.first_ns; });
    std::vector<std::vector<std::string>> attempts;
    std::set<std::pair<std::string, int32_t>> started;
    int64_t silent_ns = 0;  // since then those that started say nothing
    for (const StructuredLog& log : logs) {
        if (attempts.empty() || log.first_ns > silent_ns || started.contains({log.source, log.rank})) {
            started.clear();
            attempts.emplace_back();
            silent_ns = log.last_ns;
        }
        started.emplace(log.source, log.rank);
        silent_ns = std::max(silent_ns, log.last_ns);
        attempts.back().push_back(log.path);
    }
    const size_t newest = attempts.size() - 1;
    const size_t wanted = options.attempt ? static_cast<size_t>(std::max(*options.attempt, 0)) : newest;
    if (wanted > newest) {
        return Error(fmt::format("no attempt {}: the logs there are of {}, from 0 on", wanted,
                                 counted(attempts.size(), "start")));
    }
    if (newest != 0) {
        chosen.warnings.push_back({WarningKind::kOtherRun,
                                   {},
                                   fmt::format("the logs there are of {} of the job: attempt {} is shown (--attempt)",
                                               counted(attempts.size(), "start"), wanted)});
    }
    chosen.attempt = static_cast<int32_t>(wanted);
    std::map<std::string, std::vector<std::string>> of_role;
    for (const StructuredLog& log : logs) {
        if (std::ranges::find(attempts[wanted], log.path) != attempts[wanted].end()) {
            of_role[log.source].push_back(log.path);
        }
    }
    if (options.role.empty()) {
        chosen.paths = std::move(attempts[wanted]);
        return chosen;
    }
    const auto role = of_role.find(options.role);
    if (role == of_role.end()) {
        const auto name_of = [](const auto& one) {
            return fmt::format("{} ({})", printable(one.first), counted(one.second.size(), "rank"));
        };
        return Error(fmt::format("no role {}; found: {}", printable(options.role), listed(mapped(of_role, name_of))));
    }
    chosen.paths = std::move(role->second);
    return chosen;
}

}  // namespace titan::analyzer
