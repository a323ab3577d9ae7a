#include "goodput.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "host/words.h"
#include "load_run.h"
#include "phases.h"
#include "starts.h"

namespace titan::analyzer {
namespace {

using format::MarkerKind;

struct PartOfPhase {
    std::string_view phase;  // phases.def
    TimePart part;
};
constexpr auto kPartsOfPhases = std::to_array<PartOfPhase>({
    {"compile", TimePart::kCompile},
    {"checkpoint_load", TimePart::kCheckpoint},
    {"checkpoint_save_sync", TimePart::kCheckpoint},
    {"checkpoint_save_finalization", TimePart::kCheckpoint},
    {"data_loading", TimePart::kData},
    {"validation_loop", TimePart::kValidation},
    {"testing_loop", TimePart::kValidation},
});

std::optional<TimePart> part_of(std::string_view span_name) {
    const std::string_view phase = phase_of(span_name);
    const auto* row = std::find_if(kPartsOfPhases.begin(), kPartsOfPhases.end(),
                                   [phase](const PartOfPhase& one) { return one.phase == phase; });
    return row == kPartsOfPhases.end() ? std::nullopt : std::optional(row->part);
}

struct Step {
    int64_t number;
    int64_t begin_ns;
};

struct Interval {
    int64_t begin_ns;
    int64_t end_ns;
    TimePart part;
};

// The steps of a process, and what its thread that marks them did beside training.
class MarkersOfARank {
  public:
    void add(const MarkerRecord& record) {
        const format::MarkerEntry& raw = record.raw;
        const int64_t at_ns = record.of.realtime_ns(raw.ticks);
        first_ns = std::min(first_ns, at_ns);
        newest_ns = std::max(newest_ns, at_ns);
        if (raw.kind == MarkerKind::kStep) {
            thread_ = raw.thread;
            steps.push_back({static_cast<int64_t>(raw.value), at_ns});
        } else if (raw.kind == MarkerKind::kSpanEnd && raw.value != 0) {
            if (const auto part = part_of(record.of.text(raw.name))) {
                spans_.push_back({{record.of.realtime_ns(raw.value), at_ns, *part}, raw.thread});
            }
        }
    }

    // Without those that lie in others; in the order of their begins.
    std::vector<Interval> outermost() const {
        std::vector<Interval> found;
        for (const Span& span : spans_) {
            if (thread_ == 0 || span.thread == thread_) {
                found.push_back(span.interval);
            }
        }
        std::sort(found.begin(), found.end(),
                  [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
        int64_t covered_until_ns = std::numeric_limits<int64_t>::min();
        std::erase_if(found, [&](const Interval& one) {
            const bool nested = one.begin_ns < covered_until_ns;
            covered_until_ns = std::max(covered_until_ns, one.end_ns);
            return nested;
        });
        return found;
    }

    std::vector<Step> steps;
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    int64_t newest_ns = std::numeric_limits<int64_t>::min();

  private:
    struct Span {
        Interval interval;
        uint32_t thread;
    };
    uint32_t thread_ = 0;
    std::vector<Span> spans_;
};

// What of the intervals lies between two moments.
std::array<double, kTimeParts> parts_between(const std::vector<Interval>& intervals, int64_t from_ns, int64_t to_ns) {
    std::array<double, kTimeParts> parts_ns{};
    for (const Interval& one : intervals) {
        const int64_t inside_ns = std::min(one.end_ns, to_ns) - std::max(one.begin_ns, from_ns);
        parts_ns[static_cast<size_t>(one.part)] += static_cast<double>(std::max<int64_t>(inside_ns, 0));
    }
    return parts_ns;
}

double sum_of(const std::array<double, kTimeParts>& parts_ns) {
    double sum = 0;
    for (const double part : parts_ns) {
        sum += part;
    }
    return sum;
}

// The time of a process, from its begin to its end, by parts.
class TimeOfARank {
  public:
    TimeOfARank(const std::vector<Interval>& intervals, std::array<double, kTimeParts>& parts_ns)
        : intervals_(intervals), parts_ns_(parts_ns) {}

    // What no interval takes of the time between two moments belongs to `rest`.
    void add(int64_t from_ns, int64_t to_ns, TimePart rest) {
        if (from_ns >= to_ns) {
            return;
        }
        const auto parts_ns = parts_between(intervals_, from_ns, to_ns);
        for (size_t i = 0; i < kTimeParts; ++i) {
            parts_ns_[i] += parts_ns[i];
        }
        parts_ns_[static_cast<size_t>(rest)] += static_cast<double>(to_ns - from_ns) - sum_of(parts_ns);
    }

    double training_between(int64_t from_ns, int64_t to_ns) const {
        return from_ns >= to_ns
                   ? 0
                   : static_cast<double>(to_ns - from_ns) - sum_of(parts_between(intervals_, from_ns, to_ns));
    }

  private:
    const std::vector<Interval>& intervals_;
    std::array<double, kTimeParts>& parts_ns_;
};

// The newest step has taken as long as steps do in the mean, if the record goes on for that long.
int64_t end_of_steps_ns(const std::vector<Step>& steps, int64_t end_ns) {
    if (steps.size() < 2) {
        return steps.back().begin_ns;
    }
    const int64_t mean_ns = (steps.back().begin_ns - steps.front().begin_ns) / static_cast<int64_t>(steps.size() - 1);
    return std::min(end_ns, steps.back().begin_ns + std::max<int64_t>(mean_ns, 0));
}

}  // namespace

double AttemptTimes::took_ns() const { return sum_of(parts_ns); }

AttemptReader::AttemptReader(const Run& run, const AttemptTimes* next) {
    sums_.run = printable(run.id);
    sums_.attempt = run.attempt;
    sums_.start = run.start;
    sums_.began_ns = std::numeric_limits<int64_t>::max();
    if (next != nullptr) {
        done_again_from_ = next->first_step;
        next_began_ns_ = next->began_ns;
    }
}

void AttemptReader::add(const ProcessRecords& records) {
    MarkersOfARank markers;
    const bool cut =
        records.each(RecordKind::kMarker, [&](const MarkerRecord& one) { markers.add(one); }).overwritten != 0;
    const Process& process = records.process();
    const int64_t began_ns = process.started_ns > 0 ? process.started_ns : markers.first_ns;
    const int64_t ended_ns = std::max(process.now_ns, markers.newest_ns);
    if (began_ns >= ended_ns) {
        return;
    }
    ++sums_.ranks;
    sums_.began_ns = std::min(sums_.began_ns, began_ns);
    sums_.ended_ns = std::max(sums_.ended_ns, ended_ns);
    const std::vector<Interval> intervals = markers.outermost();
    TimeOfARank time(intervals, sums_.parts_ns);
    const std::vector<Step>& steps = markers.steps;
    if (steps.empty()) {
        time.add(began_ns, ended_ns, TimePart::kInitialization);
        return;
    }
    const int64_t first_ns = steps.front().begin_ns, end_of_steps = end_of_steps_ns(steps, ended_ns);
    time.add(began_ns, first_ns, cut ? TimePart::kNotOnRecord : TimePart::kInitialization);
    time.add(first_ns, end_of_steps, TimePart::kTraining);
    time.add(end_of_steps, ended_ns, TimePart::kEnd);
    sums_.first_step =
        sums_.first_step == kNoStep ? steps.front().number : std::min(sums_.first_step, steps.front().number);
    sums_.newest_step = std::max(sums_.newest_step, steps.back().number);
    const auto lost = std::find_if(steps.begin(), steps.end(), [this](const Step& step) {
        return done_again_from_ != kNoStep && step.number >= done_again_from_;
    });
    if (lost != steps.end()) {
        sums_.lost_ns += time.training_between(lost->begin_ns, end_of_steps);
        sums_.lost_steps = std::max(sums_.lost_steps, steps.back().number - lost->number + 1);
    }
}

AttemptTimes AttemptReader::times() const {
    AttemptTimes times = sums_;
    if (times.ranks == 0) {
        return times;
    }
    const auto ranks = static_cast<double>(times.ranks);
    for (double& part_ns : times.parts_ns) {
        part_ns /= ranks;
    }
    times.lost_ns /= ranks;
    times.pause_ns = static_cast<double>(std::max<int64_t>(next_began_ns_ - times.ended_ns, 0));
    return times;
}

Goodput goodput_of(const std::vector<AttemptTimes>& attempts) {
    Goodput goodput;
    goodput.marks_steps = std::any_of(attempts.begin(), attempts.end(),
                                      [](const AttemptTimes& one) { return one.first_step != kNoStep; });
    for (const AttemptTimes& one : attempts) {
        goodput.all_ns += one.took_ns() + one.pause_ns;
        goodput.kept_ns += one.part_ns(TimePart::kTraining) - one.lost_ns;
    }
    return goodput;
}

// --- the attempts of a run

namespace {

bool is_of_session(const Process& process, const std::string& session) {
    return process.label("session_tag") == session;
}

}  // namespace

// From the newest to the oldest: each tells from which step on the one before was in vain.
Result<std::vector<AttemptTimes>> read_attempts(LoadOptions load, const WantedAttempts& wanted, const Write& note) {
    load.with_journals = true;
    const std::vector<std::string> paths = load.paths;
    const Result<std::vector<AttemptOf>> found = wanted.session.empty() ? attempts_of(load) : all_attempts(load);
    if (!found) {
        return found.error();
    }
    std::vector<AttemptTimes> attempts;  // newest first
    const auto keep = [&attempts](const AttemptTimes& attempt) {
        if (attempt.ranks != 0) {
            attempts.push_back(attempt);
        }
    };
    for (auto one = found->rbegin(); one != found->rend(); ++one) {
        const bool is_newest = wanted.newest && one->number.value_or(wanted.newest->attempt) == wanted.newest->attempt;
        if (is_newest && (!one->start || one->start->number == wanted.newest->start)) {
            keep(*wanted.newest);
            continue;
        }
        load.run = one->run;
        load.attempt = one->number;
        load.told_start = one->start;
        load.paths = one->start           ? std::vector<std::string>(one->start->paths.begin(), one->start->paths.end())
                     : one->paths.empty() ? paths
                                          : one->paths;
        const Result<Run> run = load_run(load);
        if (!run) {
            note(fmt::format("attempt {}{}{} is left out: {}", one->number.value_or(0),
                             one->start ? fmt::format(" start {}", one->start->number) : std::string(),
                             wanted.session.empty() ? "" : " of run " + printable(one->run), run.error().text()));
            continue;
        }
        for (const Warning& warning : run->warnings) {
            if (warning.kind == WarningKind::kOtherRole && load.role.empty()) {
                note(warning.summary);
            }
        }
        Symbols symbols(Symbols::Search::kNearby);
        RecordReader reader(*run, symbols);
        if (!wanted.session.empty() &&
            std::none_of(reader.processes().begin(), reader.processes().end(),
                         [&](const Process* process) { return is_of_session(*process, wanted.session); })) {
            continue;
        }
        AttemptReader times(*run, attempts.empty() ? nullptr : &attempts.back());
        std::set<std::string> roles;
        const auto add = [&](const ProcessRecords& records) {
            roles.insert(records.role());
            times.add(records);
        };
        reader.visit_ours(wanted.ranks, add, wanted.progress);
        if (roles.size() > 1) {
            note(fmt::format("times are means over the ranks of all roles ({}): --role reads one",
                             fmt::join(roles, ", ")));
        }
        for (const std::string& problem : reader.problems()) {
            note(problem);
        }
        keep(times.times());
    }
    std::reverse(attempts.begin(), attempts.end());
    return attempts;
}

}  // namespace titan::analyzer
