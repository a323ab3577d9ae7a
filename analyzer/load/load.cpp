// Which files of a run, and which of several dumps of a rank.
#include "load_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <thread>
#include <tuple>

#include "before_abort.h"
#include "condense.h"
#include "damage_warnings.h"
#include "digest.h"
#include "flight_recorder.h"
#include "formats/dump_reader.h"
#include "formats/file_bytes.h"
#include "host/words.h"
#include "loader.h"
#include "rings.h"
#include "thread_position.h"
#include "witness.h"

namespace titan::analyzer {
namespace {

using format::Error;
using format::ImageBuffer;
using format::Result;

// Dumps of one rank, newest first: the first usable one is taken.
struct LoadJob {
    std::vector<Candidate> files;
};

// When a dump was made, and of which process it is.
struct DumpMoment {
    uint64_t realtime_ns = 0;  // 0 where it cannot be had
    uint64_t ticks = 0;        // of the process' own clock, which nobody sets
    std::string process;       // empty: unknown
};

// "name":N of the meta section. The full parse follows only for the file that is used.
uint64_t number_in(const std::string& meta, const char* name) {
    const std::string quoted = std::string("\"") + name + "\"";
    const size_t place = meta.find(quoted);
    const size_t digits = place == std::string::npos ? place : meta.find_first_of("0123456789", place + quoted.size());
    return digits == std::string::npos ? 0 : std::strtoull(meta.c_str() + digits, nullptr, 10);
}

DumpMoment moment_of(const Candidate& candidate) {
    const Result<format::OpenFile> file = format::OpenFile::open(candidate.path);
    if (!file) {
        return {};
    }
    const auto bytes = file->read_all();
    const Result<std::string> meta = format::read_dump_meta(*bytes);
    if (!meta) {
        return {};
    }
    DumpMoment moment{number_in(*meta, "realtime_ns"), number_in(*meta, "ticks"), {}};
    if (const Result<format::RingHeader> header = format::read_ring_header(*file); header && moment.ticks != 0) {
        moment.process = std::string(format::fixed_text(header->boot_id)) + ' ' + std::to_string(header->pid) + ' ' +
                         std::to_string(header->pid_start_ticks);
    }
    return moment;
}

// Dumps that do not even tell their time come last, and are named if they turn out to be broken. The clock of the day
// may have been set back between two dumps of a process: its ticks tell which is newer, and the time of the newest
// stands for the process.
void sort_newest_first(std::vector<Candidate>& candidates, ImageBuffer& memory, std::vector<std::string>& problems) {
    std::map<std::string, DumpMoment> moments;
    for (const Candidate& candidate : candidates) {
        moments[candidate.path] = moment_of(candidate);
    }
    std::erase_if(candidates, [&](const Candidate& candidate) {
        if (moments[candidate.path].realtime_ns != 0) {
            return false;
        }
        const Result<OpenedSource> opened = open_source(candidate.path, memory);
        if (!opened) {
            problems.push_back(opened.error().text() + "; skipped");
        }
        return !opened;
    });
    std::map<std::string, DumpMoment> newest;  // by process
    for (const auto& [path, moment] : moments) {
        DumpMoment& known = newest[moment.process];
        known = moment.ticks >= known.ticks ? moment : known;
    }
    const auto key = [&](const Candidate& candidate) {
        const DumpMoment& moment = moments[candidate.path];
        const uint64_t last_ns = moment.process.empty() ? moment.realtime_ns : newest[moment.process].realtime_ns;
        return std::tuple(last_ns, moment.process, moment.ticks, candidate.number);
    };
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return key(a) > key(b); });
}

std::vector<LoadJob> jobs_of(const std::vector<CandidateGroup>& groups) {
    std::map<std::pair<std::string, std::string>, LoadJob> by_stem;
    for (const CandidateGroup& group : groups) {
        for (const Candidate& candidate : group.files) {
            by_stem[{candidate.directory, candidate.stem}].files.push_back(candidate);
        }
    }
    std::vector<LoadJob> jobs;
    jobs.reserve(by_stem.size());
    for (auto& [key, job] : by_stem) {
        jobs.push_back(std::move(job));
    }
    return jobs;
}

// Judged by the head of the file: a node need not unpack the dumps of all others to find its own.
bool is_of_another_host(const Candidate& candidate, const LoadOptions& options) {
    if (options.only_host.empty() || candidate.is_digest) {
        return false;
    }
    const Result<format::OpenFile> file = format::OpenFile::open(candidate.path);
    const Result<format::RingHeader> header =
        file ? format::read_ring_header(*file) : Result<format::RingHeader>(file.error());
    return header && format::fixed_text(header->host) != options.only_host;
}

void load_files_in(const Candidate& candidate, Loader& with, LoadOutcome& outcome) {
    Result<Archive> archive = Archive::open(candidate.path);
    if (!archive) {
        const std::string name = std::filesystem::path(candidate.path).filename().string();
        outcome.problems.push_back(printable(name) + ": " + archive.error().text() + "; skipped");
        return;
    }
    load_archive(candidate.path, *archive, with, outcome);
}

bool is_plain(const Candidate& candidate) {
    return !candidate.is_archive && !candidate.is_flight_recorder && !candidate.is_digest;
}

bool is_of(const OpenedSource& opened, const Process& process) {
    return opened.image.header().pid == process.pid && opened.image.header().pid_start_ticks == process.pid_start_ticks;
}

// A dump from the ring of a process that is gone has no stacks. One that the process wrote itself may have: the newest
// of `older`.
void add_earlier_positions(std::span<const Candidate> older, Loader& with, Process& process) {
    for (const Candidate& candidate : older) {
        if (!is_plain(candidate)) {
            continue;
        }
        const Result<OpenedSource> opened = open_source(candidate.path, with.memory);
        if (!opened || opened->stacks.empty() || !is_of(*opened, process)) {
            continue;
        }
        Process earlier = decode_process(*opened);
        decode_positions(opened->stacks, with.symbols, earlier);
        keep_positions(earlier, process);
        return;
    }
}

// The process at the moment when it aborted its communicators, from the newest dump that still shows it. `last` is what
// `process` was read from. An abort may ask for that dump itself: it is then made before the abort does anything.
std::optional<Process> dump_before_abort(std::span<const Candidate> older, const OpenedSource& last,
                                         const Process& process, const Loader& with) {
    const int64_t abort_ns = first_abort_ns(process);
    if (older.empty() || abort_ns == 0) {
        return std::nullopt;
    }
    const int64_t since_ns = still_since_ns(last, abort_ns);
    Loader own{with.symbols, with.groups, with.only_host};
    for (const Candidate& candidate : older) {
        const auto dumped_ns = is_plain(candidate) ? static_cast<int64_t>(moment_of(candidate).realtime_ns) : 0;
        if (dumped_ns == 0 || dumped_ns < since_ns) {
            continue;
        }
        const Result<OpenedSource> opened = open_source(candidate.path, own.memory);
        LoadOutcome outcome;
        if (opened && is_of(*opened, process)) {
            take_opened(*opened, own, outcome);
        }
        if (!outcome.processes.empty() && is_before_abort(outcome.processes.front(), process)) {
            hold_until_abort(outcome.processes.front(), process, abort_ns);
            return std::move(outcome.processes.front());
        }
    }
    return std::nullopt;
}

LoadOutcome load_one(LoadJob& job, const LoadOptions& options, Loader& with) {
    LoadOutcome outcome;
    std::erase_if(job.files, [&](const Candidate& candidate) { return is_of_another_host(candidate, options); });
    if (job.files.size() > 1) {
        sort_newest_first(job.files, with.memory, outcome.problems);
    }
    for (size_t i = 0; i < job.files.size(); ++i) {
        const Candidate& candidate = job.files[i];
        if (candidate.is_archive) {
            load_files_in(candidate, with, outcome);
            continue;
        }
        if (candidate.is_flight_recorder) {
            Result<Process> process = load_flight_recorder(candidate.path, with.scratch, with.groups);
            if (!process) {
                outcome.problems.push_back(process.error().text() + "; skipped");
                continue;
            }
            outcome.processes.push_back(std::move(*process));
            break;
        }
        if (candidate.is_digest) {
            Result<Digest> digest = read_digest_file(candidate.path);
            if (digest) {
                take_digest(std::move(*digest), with, outcome);
            } else {
                outcome.problems.push_back(digest.error().text() + "; skipped");
            }
            continue;
        }
        const Result<OpenedSource> opened = open_source(candidate.path, with.memory);
        if (!opened) {
            outcome.problems.push_back(opened.error().text() + "; skipped");
            continue;
        }
        const bool has_stacks = !opened->stacks.empty();
        take_opened(*opened, with, outcome);
        if (outcome.processes.empty()) {
            break;
        }
        Process& process = outcome.processes.back();
        const auto older = std::span<const Candidate>(job.files).subspan(i + 1);
        if (auto hung = dump_before_abort(older, *opened, process, with)) {
            process = std::move(*hung);
        } else if (!has_stacks) {
            add_earlier_positions(older, with, process);
        }
        break;
    }
    return outcome;
}

std::vector<LoadOutcome> load_all(std::vector<LoadJob>& jobs, const LoadOptions& options, GroupRanks& groups) {
    std::vector<LoadOutcome> outcomes(jobs.size());
    std::atomic<size_t> next{0};
    std::atomic<size_t> done{0};
    Symbols symbols(Symbols::Search::kNearby);
    const auto work = [&](bool reports) {
        Loader with{symbols, groups, options.only_host};
        for (size_t job = next++; job < jobs.size(); job = next++) {
            outcomes[job] = load_one(jobs[job], options, with);
            ++done;
            if (reports && options.progress) {
                options.progress(done, jobs.size());
            }
        }
    };
    const unsigned cores = options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < std::min<size_t>(cores, jobs.size()); ++i) {
        helpers.emplace_back(work, false);
    }
    work(true);
    helpers.clear();  // joins
    if (options.progress) {
        options.progress(jobs.size(), jobs.size());
    }
    return outcomes;
}

// Directories of the wanted run; where directories do not tell, everything, and the headers decide later.
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
        const bool run_fits = options.run.empty() || group.run == options.run;
        const bool attempt_fits = !options.attempt || group.attempt == std::to_string(*options.attempt);
        if (flat || (run_fits && attempt_fits)) {
            chosen.push_back(std::move(group));
        }
    }
    if (!chosen.empty()) {
        return chosen;
    }
    if (discovery.groups.empty()) {
        const std::string detail = discovery.warnings.empty() ? "" : "; " + discovery.warnings.front().summary;
        return Error("no dumps (*.titan) and no rings (*.ring) found" + detail);
    }
    std::string known;
    for (const CandidateGroup& group : discovery.groups) {
        known += fmt::format("{}{}/{}", known.empty() ? "" : ", ", printable(group.run), group.attempt);
    }
    return Error("no such run or attempt; found: " + known);
}

RunKey key_of(const Process& process) { return {process.run, process.attempt}; }

// When the first of them started, INT64_MAX unknown.
int64_t start_of(const std::vector<Process>& processes, const std::optional<RunKey>& only = std::nullopt) {
    int64_t started_ns = INT64_MAX;
    for (const Process& process : processes) {
        if (process.started_ns > 0 && (!only || key_of(process) == *only)) {
            started_ns = std::min(started_ns, process.started_ns);
        }
    }
    return started_ns;
}

// torchrun counts a restart only on the node that lost a rank: one start of a job can lie in the directories of several
// attempts. Those in which something was written since the first of `processes`, which are of `chosen`, started.
std::vector<CandidateGroup> attempts_beside(Discovery& discovery, const CandidateGroup& chosen,
                                            const std::vector<Process>& processes, const LoadOptions& options) {
    constexpr int64_t kClocksApartNs = 60'000'000'000;  // a file server's and the ranks'
    std::vector<CandidateGroup> beside;
    if (options.attempt || chosen.attempt.empty()) {
        return beside;
    }
    const bool of_other_hosts = processes.empty() && !options.only_host.empty();
    const int64_t started_ns = of_other_hosts ? 0 : start_of(processes) - kClocksApartNs;
    for (CandidateGroup& group : discovery.groups) {
        if (group.run == chosen.run && !group.files.empty() && group.newest_ns >= started_ns) {
            beside.push_back(std::move(group));
        }
    }
    return beside;
}

// One start of one run, by what the records themselves say.
std::vector<Process> choose_run(std::vector<Process> processes, const LoadOptions& options,
                                std::vector<Warning>& warnings) {
    std::map<RunKey, int64_t> newest;
    for (const Process& process : processes) {
        int64_t& time = newest[key_of(process)];
        time = std::max(time, process.now_ns);
    }
    const auto fits = [&](const RunKey& key) {
        const bool named = std::any_of(newest.begin(), newest.end(),
                                       [&](const auto& item) { return item.first.first == options.run; });
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
        {"other_run",
         {},
         fmt::format("{} more file{} of {} other run{} or attempts in there, left out (--list-runs shows them)",
                     processes.end() - rest, processes.end() - rest == 1 ? "" : "s", newest.size() - 1,
                     newest.size() == 2 ? "" : "s")});
    processes.erase(rest, processes.end());
    return processes;
}

// By the records; without any of this host, by the directories.
std::optional<RunKey> key_of_run(const std::vector<Process>& processes, const std::vector<CandidateGroup>& groups) {
    if (!processes.empty()) {
        return key_of(processes.front());
    }
    if (groups.empty() || groups.front().attempt.empty()) {
        return std::nullopt;
    }
    return RunKey(groups.front().run, static_cast<int32_t>(std::strtol(groups.front().attempt.c_str(), nullptr, 10)));
}

std::string ask_for_dumps(const RingRun& run) { return fmt::format("titan-dump --job {} asks for dumps", run.run); }

// Nothing of it was dumped: its rings are read, as they lie on this node.
LoadedRun only_rings(const RingRun& run) {
    LoadedRun loaded;
    loaded.key = RunKey(run.run, run.attempt);
    loaded.found.warnings.push_back(
        {"no_dumps",
         {},
         fmt::format("run {} has no dumps there: {} ring{} of this node {} read{}", run.run, run.rings,
                     run.rings == 1 ? "" : "s", run.rings == 1 ? "is" : "are",
                     run.alive ? "; it is alive here, " + ask_for_dumps(run) : std::string())});
    return loaded;
}

// A run of this node that ended, or goes on, after everything that was dumped.
bool is_newer(const RingRun& run, const std::vector<CandidateGroup>& groups) {
    constexpr int64_t kLaterNs = 5'000'000'000;
    return std::all_of(groups.begin(), groups.end(), [&](const CandidateGroup& group) {
        const bool same = group.run == safe_file_name(run.run) && group.attempt == std::to_string(run.attempt);
        return !same && !group.attempt.empty() && group.newest_ns + kLaterNs < run.newest_ns;
    });
}

}  // namespace

// Ranks of this run whose rings lie on this node: those without a dump, and those that died after their last dump.
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
        const auto same = std::find_if(processes.begin(), processes.end(), [&](const Process& process) {
            return ring.rank >= 0 ? process.rank == ring.rank : process.pid == ring.pid;
        });
        const bool died_later = same != processes.end() && ring.liveness != Liveness::kAlive &&
                                same->liveness == Liveness::kAlive && ring.newest_ns > same->now_ns + kLaterNs;
        if (same != processes.end() && !died_later) {
            continue;
        }
        const Result<OpenedSource> opened = open_source(ring.path, memory);
        if (!opened) {
            continue;
        }
        Process process = decode_process(*opened, &symbols);
        condense(process);
        const int64_t abort_ns = died_later && is_of(*opened, *same) ? first_abort_ns(process) : 0;
        if (abort_ns != 0 && is_before_abort(*same, process) && same->now_ns >= still_since_ns(*opened, abort_ns)) {
            hold_until_abort(*same, process, abort_ns);
        } else if (died_later) {
            keep_positions(*same, process);
            *same = std::move(process);
        } else {
            processes.push_back(std::move(process));
        }
    }
}

Result<LoadedRun> load_files(const LoadOptions& options, GroupRanks& group_ranks) {
    Result<Discovery> discovery = discover(options.paths);
    const std::optional<RingRun> ring_run =
        options.ring_directories.empty()
            ? std::nullopt
            : newest_ring_run(options.ring_directories, options.paths, options.run, options.attempt);
    if (!discovery) {
        return ring_run ? Result<LoadedRun>(only_rings(*ring_run)) : discovery.error();
    }
    const Result<std::vector<CandidateGroup>> groups = choose_groups(*discovery, options);
    if (!groups && !ring_run) {
        LoadedRun loaded;
        if (options.witnesses_alone) {
            loaded.found.testimony = read_witnesses(discovery->witnesses, loaded.found.problems);
        }
        return loaded.found.testimony.empty() ? Result<LoadedRun>(groups.error()) : loaded;
    }
    const bool newer = ring_run && (!groups || is_newer(*ring_run, *groups));
    if (newer && (!groups || !ring_run->alive)) {
        LoadedRun loaded = only_rings(*ring_run);
        loaded.found.testimony = read_witnesses(discovery->witnesses, loaded.found.problems);
        if (!groups) {
            return loaded;
        }
        loaded.found.warnings.push_back(
            {"other_run", {}, "the dumps there are of earlier runs (--list-runs shows them)"});
        return loaded;
    }
    LoadedRun loaded;
    loaded.found.warnings = std::move(discovery->warnings);
    loaded.found.testimony = read_witnesses(discovery->witnesses, loaded.found.problems);
    if (newer) {
        loaded.found.warnings.push_back({"other_run",
                                         {},
                                         fmt::format("run {} is alive on this node and has not dumped: {}",
                                                     ring_run->run, ask_for_dumps(*ring_run))});
    }
    std::vector<Process> processes;
    const auto load = [&](const std::vector<CandidateGroup>& some) {
        std::vector<LoadJob> jobs = jobs_of(some);
        for (LoadOutcome& outcome : load_all(jobs, options, group_ranks)) {
            std::move(outcome.problems.begin(), outcome.problems.end(), std::back_inserter(loaded.found.problems));
            std::move(outcome.processes.begin(), outcome.processes.end(), std::back_inserter(processes));
        }
    };
    load(*groups);
    load(attempts_beside(*discovery, groups->front(), processes, options));
    // The same whether the files were read here, or node by node into digests.
    std::sort(loaded.found.problems.begin(), loaded.found.problems.end());
    warn_of_damage(loaded.found.problems, loaded.found.warnings);
    loaded.any = !processes.empty();
    loaded.found.processes = choose_run(std::move(processes), options, loaded.found.warnings);
    loaded.key = key_of_run(loaded.found.processes, *groups);
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

}  // namespace titan::analyzer
