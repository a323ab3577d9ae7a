#include "fr_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"

namespace titan::analyzer {
namespace {

namespace fr = format::fr;

// A dump asks all calls that PyTorch still watches for their state, one after the other.
constexpr int64_t kLongestDumpNs = 60'000'000'000;
// The longest time from a call's timeout to the file: the watchdog's rounds, its wait for the other ranks, its own
// heartbeat monitor.
constexpr int64_t kLatestDumpNs = 15 * 60'000'000'000LL;
// A file that is so much younger than its dump is a copy.
constexpr int64_t kCopiedNs = 2 * 60'000'000'000LL;
// A file server's clock may be behind its host's by that much.
constexpr int64_t kBehindNs = 1'000'000'000;
// Clocks of hosts differ.
constexpr int64_t kApartNs = 60'000'000'000;

// A dump updates the states in its copy of the entries: the state of calls that the watchdog still watches was looked
// up at that very moment. 0: no such entry, or times that contradict each other, as another program writes them.
int64_t moment_in_entries(const fr::Dump& dump) {
    int64_t earliest = INT64_MAX;
    int64_t latest = 0;
    int64_t newest = 0;  // newest time of anything that happened before
    for (const fr::Entry& entry : dump.entries) {
        newest = std::max(newest, entry.time_created_ns);
        const int64_t found_ns = entry.state == fr::State::kCompleted ? entry.time_completed_ns
                                 : entry.state == fr::State::kStarted ? entry.time_started_ns
                                                                      : 0;
        if (entry.retired) {
            newest = std::max(newest, found_ns);
        } else if (found_ns != 0) {
            earliest = std::min(earliest, found_ns);
            latest = std::max(latest, found_ns);
        }
    }
    return latest != 0 && earliest >= newest && latest - earliest <= kLongestDumpNs ? latest : 0;
}

int64_t newest_ns(const Process& process) {
    int64_t newest = 0;
    for (const Entry& entry : process.entries) {
        newest = std::max({newest, entry.entered_ns, entry.finished_ns});
    }
    return newest;
}

// When the calls that wait were made; 0 where none does.
struct Waits {
    int64_t first_ns = 0;
    int64_t last_ns = 0;
};

Waits waits_of(const Process& process) {
    Waits waits;
    for (const Entry& entry : process.entries) {
        if ((entry.state == CallState::kPending || entry.state == CallState::kStarted) && entry.entered_ns != 0) {
            waits.first_ns = waits.first_ns == 0 ? entry.entered_ns : std::min(waits.first_ns, entry.entered_ns);
            waits.last_ns = std::max(waits.last_ns, entry.entered_ns);
        }
    }
    return waits;
}

int64_t median(std::vector<int64_t> numbers) {
    const auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), middle, numbers.end());
    return *middle;
}

// The first timeout of the job makes all ranks dump, so that the guess for one is that for all: timeouts differ between
// groups, and no rank was left behind because it waits in one with a shorter timeout.
void guess_together(Run& run) {
    int64_t first_ns = INT64_MAX;
    for (const Process& process : run.processes) {
        if (process.source.is_flight_recorder && process.moment == Moment::kGuessed) {
            first_ns = std::min(first_ns, process.now_ns);
        }
    }
    for (Process& process : run.processes) {
        if (process.source.is_flight_recorder && process.moment == Moment::kGuessed) {
            process.now_ns = std::max(first_ns, newest_ns(process));
        }
    }
}

// The times of one process: when its oldest call was made, and when its newest event happened.
struct Span {
    size_t process = 0;
    int64_t oldest_ns = 0;
    int64_t newest_ns = 0;
};

std::vector<Span> spans_of(const std::vector<Process>& processes) {
    std::vector<Span> spans;
    for (size_t i = 0; i < processes.size(); ++i) {
        const Process& process = processes[i];
        if (process.source.is_flight_recorder && !process.history.marks_ns.empty()) {
            const int64_t written_ns = process.moment == Moment::kGuessed ? 0 : process.now_ns;
            spans.push_back({i, process.history.marks_ns.front(), std::max(newest_ns(process), written_ns)});
        }
    }
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.newest_ns < b.newest_ns; });
    return spans;
}

// The number of first spans that ended before nearly all of the others began.
size_t count_stale(const std::vector<Span>& spans) {
    for (size_t count = spans.size(); count-- > 1;) {
        const int64_t ended_ns = spans[count - 1].newest_ns + kApartNs;
        const auto began = std::count_if(spans.begin() + static_cast<ptrdiff_t>(count), spans.end(),
                                         [&](const Span& span) { return span.oldest_ns > ended_ns; });
        constexpr ptrdiff_t kNearlyAll = 10;  // but one in so many
        const auto rest = static_cast<ptrdiff_t>(spans.size() - count);
        if (rest - began <= rest / kNearlyAll) {
            return count;
        }
    }
    return 0;
}

}  // namespace

void set_moment(const fr::Dump& dump, Process& process) {
    const int64_t found_ns = moment_in_entries(dump);
    const int64_t newest = newest_ns(process);
    const Waits waits = waits_of(process);
    process.moment = found_ns != 0 ? Moment::kRecorded : Moment::kFileTime;
    process.now_ns = std::max(found_ns != 0 ? found_ns : process.source.written_ns, newest);
    if (process.moment == Moment::kRecorded) {
        return;
    }
    if (process.source.written_ns + kBehindNs < newest) {
        // A clock was set back. If that was before the waits began, the file's time still tells how long they are.
        const bool before = waits.last_ns != 0 && waits.last_ns <= process.source.written_ns;
        process.moment = before ? Moment::kFileTime : Moment::kUnknown;
        process.now_ns = before ? process.source.written_ns : newest;
        return;
    }
    const int64_t longest_ns = process.watchdog_ns() + kLatestDumpNs;
    // Nothing ends so long after a wait began: there the clock was set forward in between.
    const int64_t since_ns = newest - waits.first_ns > longest_ns ? newest : waits.first_ns;
    if (process.timeout_ns != 0 && waits.last_ns != 0 && process.now_ns - since_ns > longest_ns) {
        process.moment = Moment::kGuessed;
        process.now_ns = std::max(since_ns + process.watchdog_ns(), newest);
    }
}

void compare_moments(Run& run) {
    std::vector<int64_t> moments;
    std::vector<int64_t> later;  // how much younger each file is than its content
    for (const Process& process : run.processes) {
        if (process.source.is_flight_recorder && process.moment == Moment::kRecorded) {
            moments.push_back(process.now_ns);
            later.push_back(process.source.written_ns - process.now_ns);
        }
    }
    if (moments.empty()) {
        guess_together(run);
        return;
    }
    const int64_t moment_ns = median(moments);
    const bool copied = median(later) > kCopiedNs;
    for (Process& process : run.processes) {
        if (process.source.is_flight_recorder &&
            (process.moment == Moment::kGuessed ||
             (process.moment == Moment::kUnknown && newest_ns(process) <= moment_ns) ||
             (copied && process.moment == Moment::kFileTime))) {
            process.moment = Moment::kGuessed;
            process.now_ns = std::max(moment_ns, newest_ns(process));
        }
    }
}

void leave_out_stale(std::vector<Process>& processes, std::vector<Warning>& warnings) {
    const std::vector<Span> spans = spans_of(processes);
    const size_t count = count_stale(spans);
    if (count == 0) {
        return;
    }
    std::vector<bool> stale(processes.size(), false);
    Warning warning{WarningKind::kOtherRun, {}, {}};
    for (size_t i = 0; i < count; ++i) {
        stale[spans[i].process] = true;
        warning.ranks.push_back(processes[spans[i].process].rank);
    }
    std::sort(warning.ranks.begin(), warning.ranks.end());
    const Process& newest = processes[spans[count - 1].process];
    int64_t next_ns = INT64_MAX;
    for (size_t i = count; i < spans.size(); ++i) {
        next_ns = spans[i].oldest_ns > spans[count - 1].newest_ns ? std::min(next_ns, spans[i].oldest_ns) : next_ns;
    }
    warning.summary =
        fmt::format("{}{} left out, of an earlier run: what {} ends {} before the calls of the other files begin",
                    newest.source.label,
                    count == 1 ? " is" : fmt::format(" and {} more {} are", count - 1, plural(count - 1, "file")),
                    verb_form(count, "it holds", "they hold"), duration_text(next_ns - spans[count - 1].newest_ns));
    warnings.push_back(std::move(warning));
    size_t at = 0;
    std::erase_if(processes, [&](const Process&) { return stale[at++]; });
}

}  // namespace titan::analyzer
