#include "load_rank.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "before_abort.h"
#include "choose_role.h"
#include "decode_config.h"
#include "decode_process.h"
#include "digests.h"
#include "fr_file.h"
#include "host/words.h"
#include "host_threads.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

// Files of one rank: each is opened once, unless they are very many.
struct RankFile {
    explicit RankFile(const Candidate& one) : candidate(one), file(one.path) {}
    Candidate candidate;
    SourceFile file;
    std::optional<DumpMoment> moment{};  // only if it was asked for
};
constexpr size_t kMostOpen = 8;

// Dumps that do not even tell their time come last, and are named if they turn out to be broken. The clock of the day
// may have been set back between two dumps of a process: its ticks tell which is newer, and the time of the newest
// stands for the process.
void sort_newest_first(std::vector<RankFile>& rank_files, ImageBuffer& memory, std::vector<std::string>& problems) {
    std::map<std::string, DumpMoment> newest;  // key: process
    for (RankFile& one : rank_files) {
        const DumpMoment& moment = one.moment.emplace(one.file.moment());
        DumpMoment& known = newest[moment.process];
        known = moment.ticks >= known.ticks ? moment : known;
        if (rank_files.size() > kMostOpen) {
            one.file.close();
        }
    }
    std::erase_if(rank_files, [&](RankFile& one) {
        if (one.moment->realtime_ns != 0) {
            return false;
        }
        const Result<OpenedSource> opened = one.file.read(memory);
        if (!opened) {
            problems.push_back(opened.error().text() + "; skipped");
        }
        return !opened;
    });
    const auto key = [&](const RankFile& one) {
        const DumpMoment& moment = *one.moment;
        const uint64_t last_ns = moment.process.empty() ? moment.realtime_ns : newest[moment.process].realtime_ns;
        return std::tuple(last_ns, moment.process, moment.ticks, one.candidate.number);
    };
    std::ranges::stable_sort(rank_files, [&](const RankFile& a, const RankFile& b) { return key(a) > key(b); });
}

// Judged by the head of the file: a node need not unpack the dumps of all others to find its own.
bool is_of_another_host(RankFile& one, const std::string& only_host) {
    if (only_host.empty() || one.candidate.is_digest) {
        return false;
    }
    const std::optional<std::string> host = one.file.host();
    return host && *host != only_host;
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

// What another process saved from the ring of one that is gone has no stacks and no settings, and its last sign of life
// may be a second old. The dumps that the process wrote itself have both, and it lived when it wrote them: the newest
// of `older` counts.
void add_from_own_dumps(std::span<RankFile> older, const format::RingClock& clock, Loader& with, Process& process) {
    bool has_life = !process.is_gone();
    for (RankFile& one : older) {
        if (!is_plain(one.candidate)) {
            continue;
        }
        const Result<OpenedSource> opened = one.file.read(with.memory);
        if (!opened || !is_of(*opened, process)) {
            continue;
        }
        if (process.config.empty()) {
            decode_config(*opened, process);
        }
        if (process.children.empty()) {
            decode_children(*opened, process);
        }
        if (!has_life && opened->liveness == Liveness::kAlive) {
            has_life = true;
            process.ending.seen_ns = std::max(process.ending.seen_ns, clock.realtime_ns(opened->now_ticks));
            process.now_ns = std::max(process.now_ns, process.ending.seen_ns);
        }
        if (!opened->stacks.empty()) {
            Process earlier = decode_process(*opened);
            decode_positions(opened->stacks, with.symbols, earlier);
            keep_positions(earlier, process);
            return;
        }
    }
}

// `process` as an older dump shows it; none where that is of another process.
std::optional<Process> take_older(RankFile& one, const Process& process, Loader& with) {
    const Result<OpenedSource> opened = one.file.read(with.memory);
    LoadOutcome outcome;
    if (opened && is_of(*opened, process)) {
        take_opened(*opened, with, outcome);
    }
    return outcome.processes.empty() ? std::nullopt : std::optional(std::move(outcome.processes.front()));
}

// The process at the moment when communicators were first aborted, from the newest dump that still shows it. `last` is
// what `process` was read from. An abort may ask for that dump itself: it is then made before the abort does anything.
std::optional<Process> dump_before_abort(std::span<RankFile> older, const OpenedSource& last, const Process& process,
                                         int64_t abort_ns, const Loader& with) {
    const int64_t since_ns = still_since_ns(last, abort_ns);
    Loader own{with.symbols, with.groups, with.only_host};
    for (RankFile& one : older) {
        const auto dumped_ns =
            is_plain(one.candidate) && one.moment ? static_cast<int64_t>(one.moment->realtime_ns) : 0;
        if (dumped_ns == 0 || dumped_ns < since_ns) {
            continue;
        }
        std::optional<Process> dumped = take_older(one, process, own);
        if (dumped && is_before_abort(*dumped, process)) {
            hold_until_abort(*dumped, process, abort_ns);
            return dumped;
        }
    }
    return std::nullopt;
}

bool has_called_since(const Process& process, int64_t time_ns) {
    return std::ranges::any_of(process.entries, [&](const Entry& entry) {
        return format::moves_data(entry.kind) && entry.entered_ns > time_ns;
    });
}

// It failed, or no Python is left on its main thread: the interpreter has come to its end.
bool was_leaving(const Process& process) {
    const ThreadPosition* const position = working_position(process);
    return process.ending.failed() || (position != nullptr && position->python == kNoIndex);
}

// The process in the wait outside NCCL that its newest dump before it left shows: a timeout ended that wait, and what
// the process did then is no part of the hang.
std::optional<Process> dump_of_last_wait(std::span<RankFile> older, const Process& process, const Loader& with) {
    if (!was_leaving(process)) {
        return std::nullopt;
    }
    Loader own{with.symbols, with.groups, with.only_host};
    for (RankFile& one : older) {
        std::optional<Process> dumped = is_plain(one.candidate) ? take_older(one, process, own) : std::nullopt;
        const ThreadPosition* const position = dumped ? working_position(*dumped) : nullptr;
        if (position == nullptr || position->python == kNoIndex) {
            continue;  // nothing is known, or it was leaving by then
        }
        if (wait_outside_nccl(*dumped, *position).empty() || dumped->step != process.step ||
            has_called_since(process, dumped->now_ns)) {
            return std::nullopt;
        }
        hold_until_end(*dumped, process);
        return dumped;
    }
    return std::nullopt;
}

// A process of another world may have the same rank, and did not replace the one that was taken: the newest dump of
// each. Of each process one is read.
void add_other_worlds(const RankFile& taken, std::span<RankFile> older, Loader& with, LoadOutcome& outcome) {
    if (older.empty() || taken.moment->process.empty()) {
        return;
    }
    std::set<std::string> known = {taken.moment->process};
    for (RankFile& one : older) {
        if (!is_plain(one.candidate) || known.contains(one.moment->process)) {
            continue;
        }
        LoadOutcome found;
        if (const Result<OpenedSource> opened = one.file.read(with.memory)) {
            known.insert(one.moment->process);
            take_opened(*opened, with, found);
        }
        for (Process& process : found.processes) {
            if (std::ranges::all_of(outcome.processes,
                                    [&](const Process& other) { return live_beside(process, other); })) {
                outcome.processes.push_back(std::move(process));
            }
        }
    }
}

}  // namespace

bool is_of(const OpenedSource& opened, const Process& process) {
    return opened.image.header().pid == process.pid && opened.image.header().pid_start_ticks == process.pid_start_ticks;
}

LoadOutcome load_rank(const std::vector<Candidate>& files, Loader& with, int64_t first_in_job_ns) {
    LoadOutcome outcome;
    std::vector<RankFile> rank_files(files.begin(), files.end());
    std::erase_if(rank_files, [&](RankFile& one) { return is_of_another_host(one, with.only_host); });
    if (rank_files.size() > 1) {
        sort_newest_first(rank_files, with.memory, outcome.problems);
    }
    for (size_t i = 0; i < rank_files.size(); ++i) {
        const Candidate& candidate = rank_files[i].candidate;
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
        const Result<OpenedSource> opened = rank_files[i].file.read(with.memory, with.extent);
        if (!opened) {
            outcome.problems.push_back(opened.error().text() + "; skipped");
            continue;
        }
        const bool has_stacks = !opened->stacks.empty();
        const format::RingClock clock = opened->image.clock();
        take_opened(*opened, with, outcome);
        if (outcome.processes.empty()) {
            break;
        }
        Process& process = outcome.processes.back();
        const auto older = std::span<RankFile>(rank_files).subspan(i + 1);
        const int64_t abort_ns = aftermath_since_ns(process, first_in_job_ns);
        auto hung = abort_ns == 0 ? std::nullopt : dump_before_abort(older, *opened, process, abort_ns, with);
        outcome.shows_aftermath = has_aborted(process) && !older.empty() && !hung;
        if (hung) {
            process = std::move(*hung);
        } else if (auto waiting = dump_of_last_wait(older, process, with)) {
            process = std::move(*waiting);
        } else if (!has_stacks) {
            add_from_own_dumps(older, clock, with, process);
        }
        add_other_worlds(rank_files[i], older, with, outcome);
        break;
    }
    return outcome;
}

}  // namespace titan::analyzer
