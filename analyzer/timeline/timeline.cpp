#include "timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyze_timing.h"
#include "diagnose.h"
#include "host/words.h"
#include "named_stacks.h"
#include "overview.h"
#include "perfetto_format.h"

namespace titan::analyzer {
namespace {

// Of an overview: about so many bytes a group takes of the file.
constexpr uint64_t kBytesOfGroup = 700;
constexpr size_t kLeastGroups = 20;
constexpr size_t kMostGroups = 500;

// When a process was in some of these steps, on its own clock.
class StepWindow : public RecordVisitor {
  public:
    explicit StepWindow(std::pair<int64_t, int64_t> steps) : steps_(steps) {}

    void marker(const MarkerRecord& record) override {
        if (record.raw.kind == format::MarkerKind::kStep) {
            see(static_cast<int64_t>(record.raw.value), record.of.realtime_ns(record.raw.ticks));
        }
    }
    void collective(const CollectiveRecord& record) override {
        see(record.raw.step, record.of.realtime_ns(record.raw.entered_ticks));
    }

    // Nothing where the record has none of them.
    std::optional<TimeWindow> found() const {
        return from_ns_ == INT64_MAX ? std::nullopt : std::optional(TimeWindow{from_ns_, until_ns_});
    }

  private:
    void see(int64_t step, int64_t at_ns) {
        if (step >= steps_.first && step <= steps_.second) {
            from_ns_ = std::min(from_ns_, at_ns);
        } else if (step > steps_.second) {
            until_ns_ = std::min(until_ns_, at_ns);
        }
    }

    std::pair<int64_t, int64_t> steps_;
    int64_t from_ns_ = INT64_MAX;
    int64_t until_ns_ = INT64_MAX;
};

class Writer {
  public:
    Writer(const Run& run, const TimelineOptions& options, PerfettoFormat& format)
        : run_(run), options_(options), format_(format), timing_(analyze_timing(run)), diagnosis_(diagnose(run)) {}

    Result<Timeline> write() {
        if (options_.around_hang_ns && !set_window_around_hang()) {
            return Error("the verdict is not about a hang: there is no moment to draw around");
        }
        std::vector<const Process*> wanted;
        for (const Process* process : reader_.processes()) {
            if (options_.ranks.empty() || options_.ranks.contains(process->rank)) {
                wanted.push_back(process);
            }
        }
        write_verdict();
        for (size_t i = 0; i < wanted.size(); ++i) {
            const Process& process = *wanted[i];
            const Result<ProcessRecords> records = reader_.open(process);
            if (records) {
                write_process(process, *records, options_.most_bytes / wanted.size());
            } else {
                timeline_.notes.push_back(fmt::format("rank {}: {}", process.rank, records.error().text()));
            }
            if (options_.progress) {
                options_.progress(i + 1, wanted.size());
            }
        }
        if (timeline_.processes == 0) {
            return Error(timeline_.notes.empty() ? "no rank fits" : timeline_.notes.front());
        }
        if (timeline_.counts.left_out != 0) {
            timeline_.notes.push_back(fmt::format(
                "the oldest {} left out to stay near {} MB: choose --rank, --step or --around-hang, or "
                "raise --limit-mb",
                many_counted(timeline_.counts.left_out, "slice") + verb_form(timeline_.counts.left_out, " is", " are"),
                options_.most_bytes >> 20));
        }
        timeline_.notes.insert(timeline_.notes.end(), reader_.problems().begin(), reader_.problems().end());
        for (const Warning& warning : diagnosis_.warnings) {
            timeline_.notes.push_back(warning.summary);
        }
        timeline_.clocks = std::move(timing_.clocks);
        return std::move(timeline_);
    }

  private:
    bool set_window_around_hang() {
        const auto hang = std::find_if(diagnosis_.findings.begin(), diagnosis_.findings.end(),
                                       [](const Finding& finding) { return finding.hangs && finding.since_ns != 0; });
        if (hang == diagnosis_.findings.end()) {
            return false;
        }
        window_ = {hang->since_ns - *options_.around_hang_ns, hang->since_ns + *options_.around_hang_ns};
        return true;
    }

    // The findings have tracks of their own, above the ranks.
    void write_verdict() {
        TraceTrack track;
        for (const Finding& finding : diagnosis_.findings) {
            if (finding.since_ns <= 0) {
                continue;
            }
            if (track.id == 0) {
                track = {next_track_ + 1, next_track_, "findings", 0, false};
                next_track_ += 2;
                format_.process(track.process, "titantrace");
                format_.track(track);
            }
            const std::string summary = finding.summary.text();
            std::string encoded;
            format_.encode({summary, {}, 0}, encoded);
            format_.instant(track, finding.since_ns, encoded);
            ++timeline_.counts.instants;
        }
    }

    std::optional<uint32_t> index_of(const Process& process) const {
        const Process* first = run_.processes.data();
        const bool is_of_run = &process >= first && &process < first + run_.processes.size();
        return is_of_run ? std::optional(static_cast<uint32_t>(&process - first)) : std::nullopt;
    }

    void write_process(const Process& process, const ProcessRecords& records, uint64_t most_bytes) {
        const std::optional<uint32_t> index = index_of(process);
        const auto common_ns = [this, index](int64_t ns) { return index ? timing_.clocks.common_ns(*index, ns) : ns; };
        std::optional<Overview> overview;
        if (options_.overview) {
            overview.emplace(std::clamp<size_t>(most_bytes / kBytesOfGroup, kLeastGroups, kMostGroups), common_ns);
            overview->collect(run_, records);
        }
        const bool in_full = !options_.overview || options_.steps || options_.around_hang_ns;
        std::optional<ProcessTimeline> drawn;
        if (in_full) {
            draw(process, records, most_bytes, common_ns, drawn);
        }
        if (!drawn && (!overview || overview->empty())) {
            if (!in_full) {
                timeline_.notes.push_back(fmt::format("rank {} has no steps on record", process.rank));
            }
            return;
        }
        const uint64_t id = next_track_++;
        const std::string role = records.role().empty() ? "" : records.role() + " ";
        format_.process(id, fmt::format("{}rank {} on {}, pid {}", role, process.rank, process.host, process.pid));
        if (overview && !overview->empty()) {
            count(overview->write(format_, id, next_track_));
        }
        if (drawn) {
            count(drawn->write(id, next_track_));
        }
        ++timeline_.processes;
    }

    void count(const TimelineCounts& counts) {
        timeline_.counts.slices += counts.slices;
        timeline_.counts.joined += counts.joined;
        timeline_.counts.instants += counts.instants;
        timeline_.counts.values += counts.values;
        timeline_.counts.left_out += counts.left_out;
    }

    // All that it did, or what it did in the wanted steps.
    void draw(const Process& process, const ProcessRecords& records, uint64_t most_bytes,
              const std::function<int64_t(int64_t)>& common_ns, std::optional<ProcessTimeline>& drawn) {
        ProcessTimeline::Options options;
        options.common_ns = common_ns;
        options.window = window_;
        options.steps = options_.steps;
        options.most_bytes = most_bytes;
        options.end_ns = options.common_ns(std::max(process.ending.seen_ns, process.now_ns));
        if (options_.steps) {
            StepWindow steps(*options_.steps);
            records.visit(RecordKind::kMarker, steps, options_.steps);
            records.visit(RecordKind::kCollective, steps);
            const std::optional<TimeWindow> found = steps.found();
            if (!found) {
                timeline_.notes.push_back(fmt::format("rank {} has none of these steps on record", process.rank));
                return;
            }
            options.window =
                window_.both({options.common_ns(found->from_ns),
                              found->until_ns == INT64_MAX ? INT64_MAX : options.common_ns(found->until_ns)});
            if (options.window.until_ns <= options.window.from_ns) {
                timeline_.notes.push_back(fmt::format("rank {} was in none of these steps then", process.rank));
                return;
            }
        }
        drawn.emplace(run_, format_, std::move(options));
        drawn->collect(records);
        add_lateness(process, *drawn);
    }

    void add_lateness(const Process& process, ProcessTimeline& drawn) {
        for (const RankTiming& rank : timing_.ranks) {
            if (index_of(process) != rank.process) {
                continue;
            }
            const TimeAxis& axis = timing_.axes[rank.axis];
            for (size_t i = 0; i < rank.costs.size(); ++i) {
                drawn.add_value("the others wait for it, ms", static_cast<int64_t>(axis.when_ns[i]),
                                rank.costs[i] * 1e-6);
            }
        }
    }

    const Run& run_;
    const TimelineOptions& options_;
    PerfettoFormat& format_;
    Timing timing_;
    Diagnosis diagnosis_;
    Symbols symbols_{Symbols::Search::kEverywhere};
    RecordReader reader_{run_, symbols_};
    TimeWindow window_;
    uint64_t next_track_ = 1;
    Timeline timeline_;
};

}  // namespace

Result<Timeline> write_timeline(const Run& run, const TimelineOptions& options, const PerfettoFormat::Write& write) {
    PerfettoFormat format(write);
    return Writer(run, options, format).write();
}

}  // namespace titan::analyzer
