#include "load_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "before_abort.h"
#include "choose_role.h"
#include "condense.h"
#include "decode_process.h"
#include "discover.h"
#include "host/mapped.h"
#include "host/words.h"
#include "journals.h"
#include "load_options.h"
#include "load_rank.h"
#include "named_stacks.h"
#include "rings.h"
#include "run.h"
#include "share_work.h"
#include "starts.h"
#include "take_record.h"
#include "thread_position.h"
#include "witness.h"

namespace titan::analyzer {
namespace {

// --- Processes of which a journal tells.

// The processes that are not in `known`, and if `only` names some, only those. Damage becomes a problem.
std::vector<Process> load_journals(const std::vector<std::string>& paths, const std::vector<Process>& known,
                                   const std::set<ProcessKey>& only, const LoadOptions& options,
                                   std::vector<std::string>& problems) {
    std::set<ProcessKey> recorded;
    for (const Process& process : known) {
        recorded.insert(process_key(process));
    }
    Journals journals(paths);
    std::vector<Process> processes;
    for (const ProcessKey& key : journals.processes()) {
        std::vector<std::byte> memory;
        OpenedSource opened;
        const bool is_wanted =
            !recorded.contains(key) && (only.empty() || only.contains(key)) && journals.open(key, memory, opened) &&
            (options.only_host.empty() || format::fixed_text(opened.image.header().host) == options.only_host);
        if (is_wanted) {
            condense(processes.emplace_back(decode_process(opened)));
        }
    }
    problems.insert(problems.end(), journals.problems().begin(), journals.problems().end());
    return processes;
}

// True if the file begins with a process that started after that time. Reads its beginning alone.
bool begins_after(const std::string& path, int64_t time_ns) {
    constexpr size_t kFirstBytes = 256 << 10;
    const Result<OpenFile> file = open_journal(path);
    std::vector<std::byte> bytes(kFirstBytes);
    bytes.resize(file ? file->read_at(0, bytes.data(), bytes.size()) : 0);
    const Result<format::JournalIndex> index = format::index_journal(bytes);
    if (!index || index->parts.empty()) {
        return false;
    }
    const Result<format::MarkerBlock> block =
        format::read_block(std::span(bytes).subspan(index->parts.front().offset_bytes));
    return block && static_cast<int64_t>(block->header.first_anchor.realtime_ns) > time_ns;
}

// Dumps of one rank, newest first: the first usable one is taken.
struct LoadJob {
    std::vector<Candidate> files;
};

std::vector<LoadJob> jobs_of(const std::vector<CandidateGroup>& groups) {
    std::map<std::pair<std::string, std::string>, LoadJob> by_stem;
    for (const CandidateGroup& group : groups) {
        for (const Candidate& candidate : group.files) {
            by_stem[{candidate.directory, candidate.stem}].files.push_back(candidate);
        }
    }
    return mapped(by_stem, [](auto& one) { return std::move(one.second); });
}

// Calls work(index, loader) for each of these, on all processors.
template <typename Work>
void for_each_job(const std::vector<size_t>& indexes, const LoadOptions& options, GroupRanks& groups, Symbols& symbols,
                  const Work& work) {
    std::atomic<size_t> done{0};
    const unsigned cores = options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    share_work(indexes.size(), cores, [&](const auto& next, bool is_first) {
        Loader with{symbols, groups, options.only_host,
                    options.records_alone ? format::DumpExtent::kFrame : format::DumpExtent::kAll};
        while (const std::optional<size_t> i = next()) {
            work(indexes[*i], with);
            ++done;
            if (is_first && options.progress) {
                options.progress(done, indexes.size());
            }
        }
    });
    if (options.progress) {
        options.progress(indexes.size(), indexes.size());
    }
}

using Attempt = std::pair<std::string, int32_t>;

Attempt attempt_of(const Process& process) { return {process.run, process.attempt}; }

// When a process of each attempt first aborted communicators; 0 where none did.
std::map<Attempt, int64_t> first_aborts(const std::vector<LoadOutcome>& outcomes) {
    std::map<Attempt, int64_t> first;
    for (const LoadOutcome& outcome : outcomes) {
        for (const Process& process : outcome.processes) {
            int64_t& first_ns = first[attempt_of(process)];
            first_ns = earlier_abort_ns(first_ns, first_abort_ns(process));
        }
    }
    return first;
}

std::vector<LoadOutcome> load_all(std::vector<LoadJob>& jobs, LoadOptions options, GroupRanks& groups) {
    // Which of several files of a rank counts depends on its calls, and on those of other ranks.
    options.records_alone =
        options.records_alone && std::ranges::all_of(jobs, [](const LoadJob& job) { return job.files.size() == 1; });
    std::vector<LoadOutcome> outcomes(jobs.size());
    Symbols symbols(Symbols::Search::kNearby);
    std::vector<size_t> all(jobs.size());
    std::iota(all.begin(), all.end(), 0);
    for_each_job(all, options, groups, symbols,
                 [&](size_t job, Loader& with) { outcomes[job] = load_rank(jobs[job].files, with); });
    std::vector<size_t> aftermath;
    std::ranges::copy_if(all, std::back_inserter(aftermath), [&](size_t job) { return outcomes[job].shows_aftermath; });
    if (!aftermath.empty()) {
        const std::map<Attempt, int64_t> first = first_aborts(outcomes);
        for_each_job(aftermath, options, groups, symbols, [&](size_t job, Loader& with) {
            if (const int64_t first_ns = first.at(attempt_of(outcomes[job].processes.back())); first_ns != 0) {
                outcomes[job] = load_rank(jobs[job].files, with, first_ns);
            }
        });
    }
    return outcomes;
}

// Attempts that are not loaded, in their own directories.
size_t attempts_left(const Discovery& discovery) {
    return static_cast<size_t>(std::ranges::count_if(
        discovery.groups, [](const CandidateGroup& group) { return !group.attempt.empty() && !is_taken(group); }));
}

std::string ask_for_dumps(const RingRun& run) { return fmt::format("titan-dump --job {} asks for dumps", run.run); }

// The run was not dumped: its rings are read as they lie on this node.
LoadedRun only_rings(const RingRun& run) {
    LoadedRun loaded;
    loaded.key = RunKey(run.run, run.attempt);
    loaded.found.warnings.push_back(
        {WarningKind::kNoDumps,
         {},
         fmt::format("run {} has no dumps there: {} of this node {} read{}", run.run, counted(run.rings, "ring"),
                     verb_form(run.rings, "is", "are"),
                     run.alive ? "; it is alive here, " + ask_for_dumps(run) : std::string())});
    return loaded;
}

// A journal beside dumps tells of processes that have none: of a later start of the run, if it goes on behind them.
bool reads_journals(const std::vector<CandidateGroup>& groups, const LoadOptions& options) {
    return options.with_journals || std::ranges::any_of(groups, [](const CandidateGroup& group) {
               int64_t dumped_ns = 0;
               for (const Candidate& file : group.files) {
                   dumped_ns = std::max(dumped_ns, file.modified_ns);
               }
               return group.newest_ns > dumped_ns &&
                      std::ranges::any_of(group.journals, [dumped_ns](const std::string& path) {
                          return begins_after(path, dumped_ns);
                      });
           });
}

// True if these are of a start of the job after all that the others recorded.
bool started_after(const std::vector<Process>& processes, const std::vector<Process>& others) {
    const int64_t started_ns = start_of(processes);
    return started_ns != INT64_MAX &&
           std::ranges::all_of(others, [started_ns](const Process& other) { return other.now_ns < started_ns; });
}

LoadedRun rings_before_dumps(const RingRun& run, const Discovery& discovery, bool has_dumps) {
    LoadedRun loaded = only_rings(run);
    loaded.found.testimony = read_witnesses(discovery.witnesses, loaded.found.problems);
    if (has_dumps) {
        loaded.found.warnings.push_back(
            {WarningKind::kOtherRun, {}, "the dumps there are of earlier runs (--list-runs shows them)"});
    }
    return loaded;
}

Result<LoadedRun> only_logs(const Discovery& discovery, const LoadOptions& options) {
    Result<ChosenLogs> logs = choose_logs(discovery.logs, options);
    if (!logs) {
        return logs.error();
    }
    LoadedRun loaded;
    loaded.logs = std::move(*logs);
    return loaded;
}

void tell_start(const std::vector<CandidateGroup>& groups, LoadedRun& loaded) {
    if (groups.size() != 1 || groups.front().start == 0) {
        return;
    }
    loaded.start = groups.front().start;
    loaded.starts = groups.front().starts;
    loaded.found.warnings.push_back(
        {WarningKind::kOtherRun,
         {},
         fmt::format("the job was started {} times in this directory under one run id: start {} is read (--start)",
                     loaded.starts, loaded.start)});
}

void warn_of_damage(const std::vector<std::string>& problems, std::vector<Warning>& warnings) {
    constexpr size_t kShownProblems = 5;
    for (size_t i = 0; i < std::min(problems.size(), kShownProblems); ++i) {
        warnings.push_back({WarningKind::kDamagedFile, {}, problems[i]});
    }
    if (problems.size() > kShownProblems) {
        warnings.push_back(
            {WarningKind::kDamagedFile,
             {},
             fmt::format("and {} more problems of this kind", grouped_digits(problems.size() - kShownProblems))});
    }
}

}  // namespace

Result<LoadedRun> load_files(const LoadOptions& options, GroupRanks& group_ranks) {
    Result<Discovery> discovery = discover(options.paths);
    const std::optional<RingRun> ring_run =
        options.ring_directories.empty()
            ? std::nullopt
            : newest_ring_run(options.ring_directories, options.paths, options.run, options.attempt);
    if (!discovery) {
        return ring_run ? Result<LoadedRun>(only_rings(*ring_run)) : discovery.error();
    }
    const bool has_logs_alone = discovery->groups.empty() && !discovery->logs.empty();
    if (has_logs_alone && options.with_journals && options.run.empty()) {
        return only_logs(*discovery, options);
    }
    Result<std::vector<CandidateGroup>> groups = choose_groups(*discovery, options);
    if (!groups && !ring_run) {
        LoadedRun loaded;
        if (options.witnesses_alone) {
            loaded.found.testimony = read_witnesses(discovery->witnesses, loaded.found.problems);
        }
        return loaded.found.testimony.empty() ? Result<LoadedRun>(groups.error()) : loaded;
    }
    const bool newer = ring_run && (!groups || is_newer(*ring_run, *groups));
    if (newer && (!groups || !ring_run->alive)) {
        return rings_before_dumps(*ring_run, *discovery, static_cast<bool>(groups));
    }
    LoadedRun loaded;
    loaded.found.warnings = std::move(discovery->warnings);
    loaded.found.testimony = read_witnesses(discovery->witnesses, loaded.found.problems);
    if (newer) {
        loaded.found.warnings.push_back({WarningKind::kOtherRun,
                                         {},
                                         fmt::format("run {} is alive on this node and has not dumped: {}",
                                                     ring_run->run, ask_for_dumps(*ring_run))});
    }
    std::vector<Process> processes;
    std::vector<Process>& journaled = loaded.found.journaled;
    std::set<ProcessKey> only;  // of the start that is read
    // A file of which nothing can be read is no run: it hides none.
    const auto none = [&] { return processes.empty() && journaled.empty(); };
    const auto load = [&](const std::vector<CandidateGroup>& some) {
        for (const CandidateGroup& group : some) {
            loaded.journals.insert(loaded.journals.end(), group.journals.begin(), group.journals.end());
        }
        std::vector<LoadJob> jobs = jobs_of(some);
        for (LoadOutcome& outcome : load_all(jobs, options, group_ranks)) {
            std::move(outcome.problems.begin(), outcome.problems.end(), std::back_inserter(loaded.found.problems));
            std::move(outcome.processes.begin(), outcome.processes.end(), std::back_inserter(processes));
        }
        if (processes.empty()) {
            journaled = load_journals(loaded.journals, processes, only, options, loaded.found.problems);
        }
    };
    // Of each directory one start, and if nothing of that can be read, whatever is there.
    const auto load_start = [&]() -> std::optional<Error> {
        std::vector<CandidateGroup> all = *groups;
        if (std::optional<Error> error = keep_start(*groups, options)) {
            return error;
        }
        only = groups->size() == 1 ? groups->front().processes : std::set<ProcessKey>();
        load(*groups);
        if (none() && options.start == 0 && !options.told_start && !only.empty()) {
            groups = std::move(all);
            only.clear();
            loaded.journals.clear();
            load(*groups);
        }
        return std::nullopt;
    };
    if (const std::optional<Error> error = load_start()) {
        return *error;
    }
    for (bool goes_on = options.only_host.empty(); none() && goes_on;) {
        std::erase_if(discovery->groups, is_taken);
        const std::string unread = groups->front().run;
        Result<std::vector<CandidateGroup>> older = choose_groups(*discovery, options);
        goes_on = static_cast<bool>(older);
        if (goes_on) {
            groups = std::move(older);
            loaded.journals.clear();
            if (const std::optional<Error> error = load_start()) {
                return *error;
            }
            if (!unread.empty()) {
                loaded.found.warnings.push_back(
                    {WarningKind::kOtherRun,
                     {},
                     fmt::format("run {} is newer, and none of its files can be read", unread)});
            }
        }
    }
    const std::vector<CandidateGroup> beside = attempts_beside(*discovery, groups->front(), processes, options);
    if (!beside.empty()) {
        only.clear();
        load(beside);
    }
    if (!processes.empty() && (reads_journals(*groups, options) || reads_journals(beside, options))) {
        journaled = load_journals(loaded.journals, processes, only, options, loaded.found.problems);
    }
    if (processes.empty() || started_after(journaled, processes)) {
        if (!processes.empty()) {
            loaded.found.warnings.push_back(
                {WarningKind::kOtherRun, {}, "the dumps there are of an earlier start of the run: left out"});
        }
        processes = std::exchange(journaled, {});
    }
    loaded.passed_over = options.run.empty() && !options.attempt ? attempts_left(*discovery) : 0;
    // The same whether the files were read here, or node by node into digests.
    std::ranges::sort(loaded.found.problems);
    warn_of_damage(loaded.found.problems, loaded.found.warnings);
    loaded.any = !none();
    loaded.found.processes = choose_run(std::move(processes), options, loaded.found.warnings);
    loaded.key = key_of_run(loaded.found.processes, *groups);
    tell_start(*groups, loaded);
    std::erase_if(journaled, [&](const Process& process) {
        return !loaded.key || RunKey(process.run, process.attempt) != *loaded.key;
    });
    return loaded;
}

Error nothing_usable(const LoadedRun& loaded) {
    const std::vector<std::string>& problems = loaded.found.problems;
    return Error(loaded.any ? "no record of that run or attempt"
                            : "no usable file" + (problems.empty() ? "" : ": " + problems.front()));
}

Result<LoadedProcesses> load_processes(const LoadOptions& options) {
    GroupRanks group_ranks;
    Result<LoadedRun> loaded = load_files(options, group_ranks);
    if (!loaded) {
        return loaded.error();
    }
    loaded->found.group_ranks = group_ranks.take();
    add_node_rings(loaded->key, loaded->found.processes, options);
    if (loaded->found.processes.empty() && options.only_host.empty()) {
        return nothing_usable(*loaded);
    }
    return std::move(loaded->found);
}

// --- rings of this node

namespace {

int64_t first_abort_of(const std::vector<Process>& processes) {
    int64_t first_ns = 0;
    for (const Process& process : processes) {
        first_ns = earlier_abort_ns(first_ns, first_abort_ns(process));
    }
    return first_ns;
}

}  // namespace

void add_node_rings(const std::optional<RunKey>& key, std::vector<Process>& processes, const LoadOptions& options) {
    if (options.ring_directories.empty() || !key) {
        return;
    }
    constexpr int64_t kLaterNs = 2'000'000'000;
    const int64_t started_ns = start_of(processes);
    ImageBuffer memory;
    Symbols symbols(Symbols::Search::kNearby);
    for (const NodeRing& ring : list_rings(options.ring_directories)) {
        const bool of_attempt = ring.attempt == key->second || (!options.attempt && started_ns != INT64_MAX);
        if (!ring.problem.empty() || ring.run != key->first || !of_attempt ||
            (started_ns != INT64_MAX && ring.newest_ns < started_ns)) {
            continue;
        }
        // Its own dump, else one of its rank.
        auto same = std::ranges::find_if(processes, [&](const Process& process) {
            return process.pid == ring.pid && (ring.rank < 0 || process.rank == ring.rank);
        });
        if (same == processes.end() && ring.rank >= 0) {
            same = std::ranges::find_if(processes, [&](const Process& process) { return process.rank == ring.rank; });
        }
        // A ring has all that its journal has, and calls.
        const bool is_journaled = same != processes.end() && same->source.is_journal && ring.pid == same->pid;
        const bool died_later = same != processes.end() && ring.liveness != Liveness::kAlive &&
                                same->liveness == Liveness::kAlive && ring.newest_ns > same->now_ns + kLaterNs;
        const bool is_other = same != processes.end() && ring.pid != same->pid;
        if (same != processes.end() && !died_later && !is_other && !is_journaled) {
            continue;
        }
        const Result<OpenedSource> opened = open_source(ring.path, memory);
        if (!opened ||
            (!options.only_host.empty() && format::fixed_text(opened->image.header().host) != options.only_host)) {
            continue;  // containers of one node share directories, and have names of their own
        }
        Process process = decode_process(*opened, &symbols);
        condense(process);
        const bool is_beside = is_other && std::ranges::all_of(processes, [&](const Process& other) {
                                   return other.rank != process.rank || live_beside(process, other);
                               });
        if (is_journaled && is_of(*opened, *same)) {
            *same = std::move(process);
            continue;
        }
        if (same != processes.end() && !died_later && !is_beside) {
            continue;
        }
        const int64_t abort_ns =
            died_later && is_of(*opened, *same) ? aftermath_since_ns(process, first_abort_of(processes)) : 0;
        if (abort_ns != 0 && is_before_abort(*same, process) && same->now_ns >= still_since_ns(*opened, abort_ns)) {
            hold_until_abort(*same, process, abort_ns);
        } else if (died_later && !is_beside) {
            keep_positions(*same, process);
            process.source.reason = same->source.reason;
            process.source.replaced_ns = same->now_ns;
            *same = std::move(process);
        } else {
            processes.push_back(std::move(process));
        }
    }
}

}  // namespace titan::analyzer
