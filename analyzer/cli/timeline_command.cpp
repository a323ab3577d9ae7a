// titan-analyze timeline: the run to look at, in Perfetto.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>

#include "clocks.h"
#include "commands.h"
#include "diagnose.h"
#include "host/file_bytes.h"
#include "host/json_value.h"
#include "host/result.h"
#include "host/words.h"
#include "named_stacks.h"
#include "overview.h"
#include "perfetto_format.h"
#include "process_timeline.h"
#include "run.h"
#include "timing.h"

namespace titan::analyzer {
namespace {

// --- A run as a timeline: all ranks on one clock, for Perfetto and other viewers.

struct TimelineOptions {
    std::set<int> ranks;  // empty: all
    std::optional<std::pair<int64_t, int64_t>> steps;
    bool overview = false;  // the whole run at low detail; in full only `steps`, or what is around the hang
    std::optional<int64_t> around_hang_ns;      // before and after the moment of the verdict's finding
    uint64_t most_bytes = uint64_t{200} << 20;  // about; the oldest is left out
    std::function<void(size_t done, size_t total)> progress;
};

struct Timeline {
    Clocks clocks;  // that it is drawn on
    TimelineCounts counts;
    size_t processes = 0;
    std::vector<std::string> notes;  // what is missing
};

// Of an overview: about so many bytes a group takes of the file.
constexpr uint64_t kBytesOfGroup = 700;
constexpr size_t kLeastGroups = 20;
constexpr size_t kMostGroups = 500;

// When a process was in some of these steps, on its own clock. Nothing where the record has none of them.
std::optional<TimeWindow> window_of(const ProcessRecords& records, const std::pair<int64_t, int64_t>& steps) {
    TimeWindow window{INT64_MAX, INT64_MAX};
    const auto see = [&](int64_t step, int64_t at_ns) {
        if (step >= steps.first) {
            int64_t& bound_ns = step <= steps.second ? window.from_ns : window.until_ns;
            bound_ns = std::min(bound_ns, at_ns);
        }
    };
    const auto see_marker = [&see](const MarkerRecord& record) {
        if (record.raw.kind == format::MarkerKind::kStep) {
            see(static_cast<int64_t>(record.raw.value), record.of.realtime_ns(record.raw.ticks));
        }
    };
    records.each(RecordKind::kMarker, see_marker, steps);
    records.each(RecordKind::kCollective, [&see](const CollectiveRecord& record) {
        see(record.raw.step, record.of.realtime_ns(record.raw.entered_ticks));
    });
    return window.from_ns == INT64_MAX ? std::nullopt : std::optional(window);
}

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
        const auto hang = std::ranges::find_if(
            diagnosis_.findings, [](const Finding& finding) { return finding.hangs && finding.since_ns != 0; });
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
            const std::optional<TimeWindow> found = window_of(records, *options_.steps);
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

// Opens the records of the run once more, a process at a time. Error: nothing can be drawn.
Result<Timeline> write_timeline(const Run& run, const TimelineOptions& options, const PerfettoFormat::Write& write) {
    PerfettoFormat format(write);
    return Writer(run, options, format).write();
}

// --- Traces of PyTorch's profiler (Kineto) beside a timeline of ours: a manifest that tells Perfetto (v58 and later)
// how their clocks relate to the one that all hosts are aligned to. Format:
// https://perfetto.dev/docs/reference/perfetto-manifest.

struct KinetoTrace {
    std::string path;
    int64_t base_ns = 0;   // CLOCK_REALTIME of its host where its times are 0
    uint32_t process = 0;  // of the run, on the same host
};

constexpr size_t kHeadBytes = 1 << 20;  // what comes before the events is some kB, with eight GPUs

// The members before the events: they come last, and may take gigabytes.
std::optional<Json> head_of(std::string text) {
    const size_t events = text.find("\"traceEvents\"");
    if (events == std::string::npos) {
        return std::nullopt;
    }
    text.resize(events);
    const size_t end = text.find_last_not_of(", \t\r\n");
    text.resize(end == std::string::npos ? 0 : end + 1);
    return Json::parse(text + "}");
}

// The rank that the trace tells, else any rank of its host; of a run on one host any.
std::optional<uint32_t> process_of(const Run& run, const Json& head) {
    const auto rank = head.at("distributedInfo").at("rank").integer();
    const auto host = head.at("host_name").text();
    const std::set<std::string> hosts(run.hosts.begin(), run.hosts.end());
    const auto found = std::ranges::find_if(run.processes, [&](const Process& process) {
        return rank ? process.rank == *rank : host ? process.host == *host : hosts.size() == 1;
    });
    return found == run.processes.end() ? std::nullopt
                                        : std::optional(static_cast<uint32_t>(found - run.processes.begin()));
}

// Reads the beginning of the file. Error: it is no such trace, or of no host of the run.
Result<KinetoTrace> read_kineto(const Run& run, const std::string& path) {
    const Result<OpenFile> file = OpenFile::open(path);
    if (!file) {
        return file.error();
    }
    std::string text(std::min<uint64_t>(file->size_bytes(), kHeadBytes), '\0');
    text.resize(file->read_at(0, text.data(), text.size()));
    if (text.starts_with("\x1f\x8b")) {
        return Error("is compressed: unpack it first (gunzip)");
    }
    const std::optional<Json> head = head_of(std::move(text));
    if (!head) {
        return Error("is no trace of PyTorch's profiler");
    }
    const std::optional<uint32_t> process = process_of(run, *head);
    if (!process) {
        return Error("does not name its rank or host, or is not of this run");
    }
    return KinetoTrace{path, head->at("baseTimeNanoseconds").integer().value_or(0), *process};
}

// `timeline`: path of ours. Files are named as they are in the archive with all of them: without directories.
// A clock is told by two readings at one moment, for which the middle of the record is best: clocks drift.
Json manifest_of(const Run& run, const Clocks& clocks, const std::string& timeline,
                 const std::vector<KinetoTrace>& traces) {
    Json files = Json::array();
    files.push_back({{"path", base_name(timeline)}});
    for (const KinetoTrace& trace : traces) {
        const Process& process = run.processes[trace.process];
        const int64_t middle_ns = process.started_ns + (process.now_ns - process.started_ns) / 2;
        const int64_t at_ns = std::max(middle_ns, trace.base_ns);
        Json is = {
            {"file", base_name(timeline)}, {"clock", "REALTIME"}, {"ts", clocks.common_ns(trace.process, at_ns)}};
        files.push_back({{"path", base_name(trace.path)},
                         {"machine", Json{{"name", process.host}}},
                         {"clocks", Json{{"ts", at_ns - trace.base_ns}, {"is", std::move(is)}}}});
    }
    Json trace_time = {{"clock", "REALTIME"}, {"file", base_name(timeline)}};
    Json root = Json::object();
    root["perfetto_manifest"] = {{"version", 1}, {"trace_time", std::move(trace_time)}, {"files", std::move(files)}};
    return root;
}

constexpr const char* kTimelineFooter =
    R"(All ranks on one clock, which is computed from the collectives. Each rank is a process with its steps, threads
(spans, calls of NCCL and CUDA, events), asyncio tasks, GPU streams (collectives, from their observed start to their
observed end), and values: metrics, readings of the machine, bus bandwidth, how long the others waited for it. Arrows
join the calls of one collective across ranks, and each send with its receive. A call that had not ended extends to the
end of the record; its state says so. Findings have their own track.

examples:
  titan-analyze timeline dumps/                          then open timeline.perfetto-trace at https://ui.perfetto.dev
  titan-analyze timeline dumps/ --around-hang 10 -o hang.perfetto-trace
  titan-analyze timeline dumps/ --rank 0-7 --steps 400-410
  titan-analyze timeline dumps/ --overview --steps 400-410     all steps at low detail, and these in full
  titan-analyze timeline dumps/ --with profiler/*.json   traces of PyTorch's profiler, on the same clock: writes
                                                         timeline.perfetto-trace.manifest.json, and says how to pack
                                                         all of them for Perfetto (v58 and later)

Exit status: 0 written, 2 unusable input or arguments, or the file could not be written.)";

constexpr size_t kWriteBytes = 1 << 20;

struct TimelineArguments {
    CommonOptions common;
    std::vector<std::string> beside;
    std::string into, ranks, steps;
    double around_hang_s = 0;
    uint64_t limit_mb = 200;
    TimelineOptions options;
};

// Writes the manifest for traces of PyTorch's profiler.
std::optional<Error> write_manifest(const Run& run, const Clocks& clocks, const std::string& timeline,
                                    const std::vector<std::string>& beside) {
    std::vector<KinetoTrace> traces;
    std::string names;
    for (const std::string& path : beside) {
        const Result<KinetoTrace> trace = read_kineto(run, path);
        if (!trace) {
            return trace.error().within(printable(path));
        }
        traces.push_back(*trace);
        names += " " + shell_quoted(path);
    }
    const std::string path = timeline + ".manifest.json";
    const std::string text = manifest_of(run, clocks, timeline, traces).dump(2) + "\n";
    if (const auto error = write_private_file(path, std::as_bytes(std::span(text)))) {
        return error->within(printable(path));
    }
    print(
        "{}: {} on the same clock; this packs them for https://ui.perfetto.dev:\n  tar cf {} "
        "--transform='s|.*/||' {} {}{}\n",
        printable(path), counted(traces.size(), "trace"), shell_quoted(timeline + ".tar"), shell_quoted(path),
        shell_quoted(timeline), names);
    return std::nullopt;
}

int run_timeline(TimelineArguments& arguments) {
    TimelineOptions& options = arguments.options;
    options.ranks = parse_ranks(arguments.ranks);
    options.steps = parse_steps(arguments.steps);
    if (arguments.around_hang_s > 0) {
        options.around_hang_ns = static_cast<int64_t>(arguments.around_hang_s * 1e9);
    }
    options.most_bytes = arguments.limit_mb << 20;
    if (arguments.into.empty()) {
        arguments.into = "timeline.perfetto-trace";
    }
    const Run run = usable(load_run(arguments.common.load_options(true)));
    Result<PrivateFile> file = PrivateFile::create(arguments.into);
    if (!file) {
        return fail(file.error().within(printable(arguments.into)).text());
    }
    options.progress = progress_bar("drawing", "ranks");
    uint64_t written_bytes = 0;
    std::string pending;
    const auto flush = [&] {
        written_bytes += pending.size();
        file->write(std::as_bytes(std::span(pending)));
        pending.clear();
    };
    const auto timeline = write_timeline(run, options, [&](std::string_view bytes) {
        pending.append(bytes);
        if (pending.size() >= kWriteBytes) {
            flush();
        }
    });
    flush();
    if (!timeline) {
        return fail(timeline.error().text());
    }
    if (const auto error = file->finish()) {
        return fail(error->within(printable(arguments.into)).text());
    }
    const TimelineCounts& counts = timeline->counts;
    print("{}: {} of {}, {} joined by arrows, {}, {}; {:.1f} MB\n", printable(arguments.into),
          many_counted(counts.slices, "slice"), counted(timeline->processes, "rank"), grouped_digits(counts.joined),
          many_counted(counts.instants, "instant"), many_counted(counts.values, "value"),
          static_cast<double>(written_bytes) * 1e-6);
    for (const std::string& note : timeline->notes) {
        say("titan-analyze: {}\n", note);
    }
    if (!arguments.beside.empty()) {
        if (const auto error = write_manifest(run, timeline->clocks, arguments.into, arguments.beside)) {
            return fail(error->text());
        }
    }
    return kExitHealthy;
}

}  // namespace

Command timeline_command(CommandLine& app) {
    const auto arguments = std::make_shared<TimelineArguments>();
    CommandLine& command = app.command("timeline", "Draw the run as a timeline for Perfetto.", kTimelineFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    command.option("-o,--output", arguments->into, "the file to write (default: timeline.perfetto-trace)");
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    add_steps(command, arguments->steps);
    command.flag(
        "--overview", arguments->options.overview,
        "the whole run at low detail: groups of steps, what a step of each is made of, metrics; with --steps or "
        "--around-hang, these in full");
    command.option("--around-hang", arguments->around_hang_s, "only this many seconds before and after the hang began")
        .between(0.001, 1e6);
    command.option("--limit-mb", arguments->limit_mb, "approximate size of the file: the oldest slices are left out")
        .between(1, 100'000)
        .show_default();
    command.option("--with", arguments->beside, "traces of PyTorch's profiler, put on the same clock");
    return {&command, [arguments] { return run_timeline(*arguments); }};
}

}  // namespace titan::analyzer
