#include "show.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "decode_metrics.h"
#include "fr_names.h"
#include "function_name.h"
#include "host/listing.h"
#include "host/words.h"
#include "records.h"
#include "run_text.h"
#include "show_filter.h"

namespace titan::analyzer {
namespace {

// --- The calls of PyTorch's Flight Recorder files, listed in PyTorch's own numbers and words.

namespace fr = format::fr;
bool is_p2p(const CallName& name) { return name.kind == OpKind::kSend || name.kind == OpKind::kRecv; }

// The closing entry of a batch has no operation of its own that tells.
int64_t number_of(const TorchCallRecord& record) {
    return is_p2p(record.name) || record.raw.is_p2p ? record.raw.p2p_seq_id : record.raw.collective_seq_id;
}

bool fits(const TorchCallRecord& record, ShowFilter& filter) {
    const int64_t number = number_of(record);
    const std::string group = record.group();
    CallWords words;
    words.communicator = group;
    words.other_communicator = record.dump.text(record.raw.group);
    words.op = record.name.op;
    words.other_op = format::name_of(record.name.kind);
    words.state = record.state();
    words.number = number < 0 ? kNoSequence : static_cast<uint64_t>(number);
    return filter.fits(words);
}

// The cells in the columns of `titan-analyze show`, but for the rank.
std::vector<std::string> torch_call_cells(const TorchCallRecord& record) {
    const fr::Entry& entry = record.raw;
    const int64_t number = number_of(record);
    const bool timed = entry.time_completed_ns > entry.time_created_ns && entry.time_created_ns > 0;
    const std::string peer = is_p2p(record.name) && record.name.source >= 0
                                 ? fmt::format(" {}->{}", record.name.source, record.name.target)
                                 : std::string();
    const bool retired = entry.retired && entry.state != fr::State::kCompleted;
    return {fine_date_text(entry.time_created_ns),
            record.group(),
            number < 0 ? "-" : fmt::format("#{}", number),
            printable(record.name.op) + peer,
            printable(record.datatype()) + " " + shapes_text(record.dump, entry),
            std::string(record.state()) + (retired ? ", retired" : ""),
            timed ? duration_text(entry.time_completed_ns - entry.time_created_ns) : "",
            call_site(record.dump, entry)};
}

using format::ChannelEntry;
using format::CollectiveEntry;
using format::StreamWorkEntry;

class RecordLister {
  public:
    RecordLister(const ShowOptions& options, ShowFilter& filter, Listing& listing,
                 const std::function<void(const std::string&)>& write)
        : options_(options), filter_(filter), listing_(listing), write_(write) {}

    void list(const ProcessRecords& records) {
        const bool calls = options_.kind == RecordKind::kCollective;
        if (calls && !options_.json && !options_.table.csv && !records.process().source.is_flight_recorder) {
            for (const std::string& problem : records.sites().problems()) {
                write_(fmt::format("{:>5}  {}\n", records.rank(), problem));
            }
        }
        const auto take = [this](const auto& record) {
            if (is_wanted(record)) {
                add(record);
            }
        };
        // What is not wanted costs only the reading.
        counts_ = options_.last != 0;
        count_ = 0;
        if (counts_) {
            records.each(options_.kind, take, options_.steps);
            counts_ = false;
        }
        dropped_ = count_ - std::min<uint64_t>(count_, options_.last);
        const format::RingLosses losses = records.each(options_.kind, take, options_.steps);
        listing_.end_part();
        const bool markers = options_.kind == RecordKind::kMarker;
        if (options_.is_journaled() && records.has_journal() && losses.overwritten != 0) {
            notes_.push_back(fmt::format("rank {}: {} {} in no journal and overwritten in its ring", records.rank(),
                                         counted(losses.overwritten, markers ? "marker" : "call"),
                                         verb_form(losses.overwritten, "is", "are")));
        }
    }

    std::vector<std::string> take_notes() { return std::move(notes_); }

  private:
    using Cells = std::vector<std::string>;

    bool is_of_steps(int64_t step) const {
        return !options_.steps || (step >= options_.steps->first && step <= options_.steps->second);
    }

    bool is_wanted(const CollectiveRecord& record) { return fits(record); }
    bool is_wanted(const TorchCallRecord& record) { return titan::analyzer::fits(record, filter_); }
    bool is_wanted(const ExtremesRecord& record) const {
        return !options_.steps ||
               (record.raw.first_step <= options_.steps->second && record.raw.last_step >= options_.steps->first);
    }
    template <typename Record>
    bool is_wanted(const Record& record) const {
        if constexpr (requires { record.raw.step; }) {
            return options_.kind == Record::kKind && is_of_steps(record.raw.step);
        }
        return true;
    }

    template <typename Record>
    void add(const Record& record) {
        if (counts_) {
            ++count_;
        } else if (dropped_ != 0) {
            --dropped_;
        } else if (options_.json) {
            write_(json_of(record).dump() + "\n");
        } else {
            Cells row = cells(record);
            row.insert(row.begin(), std::to_string(record.of.rank()));
            listing_.add(std::move(row));
        }
    }

    static Cells cells(const TorchCallRecord& record) { return torch_call_cells(record); }
    static Cells cells(const LabelRecord& record) { return {record.name, record.text}; }

    static Cells cells(const WorkRecord& record) {
        const StreamWorkEntry& entry = record.raw;
        const std::string name = record.of.text(entry.name);
        return {fine_date_text(record.of.realtime_ns(entry.entered_ticks)), std::string(format::name_of(entry.kind)),
                fmt::format("{:#x}", entry.stream), grouped_digits(entry.amount),
                (entry.kind == WorkKind::kKernel ? short_kernel_name(name) : name) +
                    ((entry.flags & format::kWorkCaptured) != 0 ? " (captured)" : "")};
    }

    static Cells cells(const ChannelRecord& record) {
        const ChannelEntry& entry = record.raw;
        return {fine_date_text(record.of.realtime_ns(entry.started_ticks)),
                entry.collective == 0 ? "-" : std::to_string(entry.collective - 1),
                std::to_string(entry.channel),
                std::string(format::name_of(entry.role)),
                std::to_string(entry.peer),
                std::string(format::name_of(entry.state)),
                fmt::format("{}/{}", entry.steps_done, entry.steps)};
    }

    // "replay 12 of graph 2, 3 of 8 channels stopped": the graph and the channels of a call.
    static std::string device_details(const CollectiveEntry& entry) {
        std::string text;
        if ((entry.flags & format::kReplayed) != 0) {
            text += fmt::format("  replay {} of graph {}", entry.replay, entry.graph);
        } else if ((entry.flags & format::kCaptured) != 0) {
            text += fmt::format("  into graph {}", entry.graph);
        }
        if (entry.channels != 0) {
            text += fmt::format("  {} of {} channels started, {} stopped", entry.channels_started, entry.channels,
                                entry.channels_finished);
        }
        return text + ((entry.flags & format::kFromPlugin) != 0 ? "  (seen by the plugin alone)" : "");
    }

    static std::string called_at(const CollectiveRecord& record) {
        const std::string& place = record.of.sites().caller(record.raw.stack);
        return place.empty() ? std::string() : "  at " + place;
    }

    // A peer by its rank in the job, as in the findings; a root as the program passes it.
    static std::string peer_text(const CollectiveRecord& record) {
        const CollectiveEntry& entry = record.raw;
        if (format::class_of(entry.kind) == format::OpClass::rooted) {
            return fmt::format(" root {} of the communicator", entry.peer);
        }
        const int global = record.of.global_rank(entry.communicator_id, entry.peer);
        return (entry.kind == OpKind::kRecv ? " from " : " to ") +
               (global >= 0 ? fmt::format("rank {}", global) : fmt::format("member {}", entry.peer));
    }

    bool fits(const CollectiveRecord& record) {
        const CollectiveEntry& entry = record.raw;
        const std::string communicator = record.of.communicator(entry.communicator_id).name;
        const std::string id = id_text(entry.communicator_id);
        CallWords words;
        words.communicator = communicator;
        words.communicator_id = id;
        words.op = format::name_of(entry.kind);
        words.state = format::name_of(entry.state);
        words.number = entry.sequence;
        words.step = entry.step;
        return filter_.fits(words);
    }

    static Cells cells(const CollectiveRecord& record) {
        const CollectiveEntry& entry = record.raw;
        const format::RingClock& clock = record.of.image().clock();
        const std::string number = sequence_text(entry.kind, entry.sequence);
        std::string arguments =
            entry.datatype == Datatype::kNoDatatype
                ? std::string()
                : fmt::format("{} x {}", datatype_text(entry.datatype), grouped_digits(entry.count));
        if (entry.reduction != Reduction::kNoReduction) {
            arguments += " " + reduction_text(entry.reduction);
        }
        if (entry.peer >= 0) {
            arguments += peer_text(record);
        }
        const bool finished = entry.gpu_finished_ticks != 0;
        const std::string took =
            finished ? duration_text(clock.span_ns(entry.entered_ticks, entry.gpu_finished_ticks)) : "";
        const std::string span = record.of.text(entry.span);
        std::string where = entry.step >= 0 ? fmt::format("step {}", entry.step) : "";
        where += (span.empty() ? "" : " " + span) + device_details(entry) + called_at(record);
        return {fine_date_text(clock.realtime_ns(entry.entered_ticks)),
                record.of.communicator(entry.communicator_id).name,
                number.empty() ? "-" : number,
                op_text(entry.kind),
                arguments,
                std::string(format::name_of(entry.state)),
                took,
                where};
    }

    static Cells cells(const CudaCallRecord& record) {
        const format::CudaCallEntry& entry = record.raw;
        const bool returned = entry.returned_ticks != 0;
        return {
            fine_date_text(record.of.realtime_ns(entry.entered_ticks)),
            record.of.text(entry.name),
            std::to_string(entry.thread),
            fmt::format("{:#x}", entry.object),
            returned ? std::to_string(entry.result) : "inside",
            returned ? duration_text(record.of.image().clock().span_ns(entry.entered_ticks, entry.returned_ticks)) : "",
            (entry.step >= 0 ? fmt::format("step {} ", entry.step) : "") + record.of.text(entry.span)};
    }

    static Cells cells(const MarkerRecord& record) {
        const format::MarkerEntry& entry = record.raw;
        return {fine_date_text(record.of.realtime_ns(entry.ticks)),
                std::string(format::name_of(entry.kind)),
                std::to_string(entry.thread),
                entry.step >= 0 ? std::to_string(entry.step) : "-",
                entry.span != 0 ? std::to_string(entry.span) : "-",
                record.of.text(entry.name),
                marker_value(record),
                record.of.places().place(entry.site)};
    }

    static Cells cells(const StepRecord& record) {
        const format::StepSum& sum = record.raw;
        const format::RingClock& clock = record.of.image().clock();
        return {sum.step >= 0 ? std::to_string(sum.step) : "-",
                fine_date_text(record.of.realtime_ns(sum.first_ticks)),
                duration_text(clock.span_ns(sum.first_ticks, sum.last_ticks)),
                grouped_digits(sum.calls),
                grouped_digits(sum.bytes),
                duration_text(record.of.span_ns(sum.host_ticks)),
                on_gpu_text(record.of, sum)};
    }

    template <typename Sum>
    static std::string on_gpu_text(const ProcessRecords& of, const Sum& sum) {
        return sum.timed_calls == 0 ? "-"
               : sum.timed_calls == sum.calls
                   ? duration_text(of.span_ns(sum.device_ticks))
                   : fmt::format("{} of {} calls", duration_text(of.span_ns(sum.device_ticks)),
                                 grouped_digits(sum.timed_calls));
    }

    static Cells cells(const StepCallsRecord& record) {
        const format::StepCalls& sum = record.raw;
        return {sum.step >= 0 ? std::to_string(sum.step) : "-",
                record.communicator_name(),
                record.operation(),
                fine_date_text(record.of.realtime_ns(sum.entered_ticks())),
                grouped_digits(sum.calls),
                grouped_digits(sum.bytes),
                duration_text(record.of.span_ns(sum.host_ticks)),
                duration_text(record.of.span_ns(sum.longest_ticks)),
                on_gpu_text(record.of, sum)};
    }

    static Cells cells(const ExtremesRecord& record) {
        const format::HealthExtremes& row = record.raw;
        const auto at = [](double value, int64_t step) {
            return fmt::format("{}{}", value, step >= 0 ? fmt::format(" (step {})", step) : "");
        };
        const bool known = !record.name.empty();
        return {fine_date_text(record.of.realtime_ns(row.first_ticks)),
                fine_date_text(record.of.realtime_ns(row.last_ticks)),
                known ? record.name : "others",
                grouped_digits(row.readings),
                known ? at(row.least, row.least_step) : "-",
                known ? at(row.greatest, row.greatest_step) : "-"};
    }

    static Cells cells(const HealthRecord& record) {
        const format::HealthEntry& entry = record.raw;
        const int64_t same_ns = record.of.image().clock().span_ns(entry.since_ticks, entry.ticks);
        return {fine_date_text(record.of.realtime_ns(entry.ticks)),
                record.of.text(entry.name),
                fmt::format("{}", entry.value),
                fmt::format("{}", entry.first_value),
                entry.since_step >= 0 ? std::to_string(entry.since_step) : "-",
                same_ns == 0 ? std::string() : "for " + duration_text(same_ns)};
    }

    static std::string marker_value(const MarkerRecord& record) {
        const format::MarkerEntry& entry = record.raw;
        switch (entry.kind) {
            case format::MarkerKind::kStep: return std::to_string(entry.value);
            case format::MarkerKind::kMetric: return fmt::format("{}", std::bit_cast<double>(entry.value));
            case format::MarkerKind::kSpanEnd:
                return entry.value == 0 ? std::string()
                                        : fine_duration_text(static_cast<double>(
                                              record.of.image().clock().span_ns(entry.value, entry.ticks)));
            case format::MarkerKind::kAttribute: return attribute_text(entry, record.of.text(entry.text));
            default: return record.of.text(entry.text);
        }
    }

    const ShowOptions& options_;
    ShowFilter& filter_;
    Listing& listing_;
    const std::function<void(const std::string&)>& write_;
    bool counts_ = false;
    uint64_t count_ = 0;
    uint64_t dropped_ = 0;  // so many of those that come are not among the newest
    std::vector<std::string> notes_;
};

std::vector<ListColumn> columns_behind_rank(RecordKind kind) {
    switch (kind) {
        case RecordKind::kWork:
            return {{"handed over", 15}, {"work", 12}, {"stream", 8, false}, {"amount", 6, true}, {"name", 0}};
        case RecordKind::kChannel:
            return {{"started", 15},   {"call", 6, true}, {"channel", 7, true}, {"role", 4},
                    {"peer", 4, true}, {"state", 5},      {"steps", 5}};
        case RecordKind::kCudaCall:
            return {{"entered", 15},     {"call", 20},      {"thread", 7, true}, {"object", 8},
                    {"result", 6, true}, {"took", 6, true}, {"where", 0}};
        case RecordKind::kMarker:
            return {{"time", 15},    {"marker", 10}, {"thread", 7, true}, {"step", 4, true},
                    {"id", 4, true}, {"name", 16},   {"value", 10},       {"called at", 0}};
        case RecordKind::kLabel: return {{"label", 16}, {"value", 0}};
        case RecordKind::kStep:
            return {{"step", 6, true},  {"first call", 15},  {"until the last", 14, true},
                    {"calls", 6, true}, {"bytes", 12, true}, {"in calls", 8, true},
                    {"on the GPU", 0}};
        case RecordKind::kStepCalls:
            return {{"step", 6, true},     {"communicator", 12}, {"operation", 10},
                    {"on average", 15},    {"calls", 6, true},   {"bytes", 12, true},
                    {"in calls", 8, true}, {"longest", 7, true}, {"on the GPU", 0}};
        case RecordKind::kExtremes:
            return {{"from", 15}, {"until", 15}, {"reading", 28}, {"changes", 7, true}, {"lowest", 18}, {"highest", 0}};
        case RecordKind::kHealth:
            return {{"time", 15},       {"reading", 28},   {"value", 8, true},
                    {"first", 8, true}, {"step", 4, true}, {"the same", 0}};
        default:
            return {{"entered", 15},   {"communicator", 12}, {"seq", 5, true},  {"operation", 10},
                    {"arguments", 20}, {"state", 8},         {"took", 6, true}, {"where", 0}};
    }
}

std::vector<ListColumn> columns_of(RecordKind kind) {
    std::vector<ListColumn> columns = columns_behind_rank(kind);
    columns.insert(columns.begin(), {"rank", 5, true});
    return columns;
}

const char* none_recorded(RecordKind kind) {
    switch (kind) {
        case RecordKind::kWork: return "no stream work is recorded (TITANTRACE_CUDA, TITANTRACE_LAUNCHES)";
        case RecordKind::kChannel: return "no channels are recorded (TITANTRACE_NCCL_PLUGIN=progress)";
        case RecordKind::kCudaCall: return "no CUDA calls are recorded (TITANTRACE_CUDA)";
        case RecordKind::kStep:
        case RecordKind::kStepCalls: return "no NCCL calls are recorded";
        case RecordKind::kExtremes: return "no journal has readings of the machine (TITANTRACE_HEALTH_S)";
        case RecordKind::kLabel: return "no labels are recorded (titan_label, TITANTRACE_LABELS)";
        case RecordKind::kHealth:
            return "no readings of the machine are recorded (TITANTRACE_HEALTH_S; GPUs are read once a communicator is "
                   "ready)";
        default: return "no steps, spans, events, metrics or labels are recorded (titantrace.h)";
    }
}

}  // namespace

Shown show(const Run& run, const ShowOptions& options, const std::function<void(const std::string&)>& write) {
    check_sort({columns_of(options.kind)}, options.table);
    ShowFilter filter(options);
    Listing listing(columns_of(options.kind), options.last, write, options.table);
    Symbols symbols(Symbols::Search::kEverywhere);
    RecordReader reader(run, symbols);
    RecordLister lister(options, filter, listing, write);
    for (const Process* process : reader.processes()) {
        if (!options.ranks.empty() && !options.ranks.contains(process->rank)) {
            continue;
        }
        if (const auto records = reader.open(*process)) {
            lister.list(*records);
        }
    }
    listing.finish();
    Shown shown;
    shown.notes = lister.take_notes();
    shown.notes.insert(shown.notes.end(), reader.problems().begin(), reader.problems().end());
    if (options.kind == RecordKind::kCollective) {
        shown.nothing = filter.nothing_fits(run);
        const bool has_journals_alone =
            !run.processes.empty() &&
            std::ranges::all_of(run.processes, [](const Process& one) { return one.source.is_journal; });
        if (shown.nothing.empty() && !options.json && has_journals_alone) {
            shown.nothing =
                "journals alone are left, which have no calls one by one: --step-calls shows their sums, "
                "--markers what the program marked";
        }
    } else if (!options.json && listing.rows() == 0) {
        shown.nothing = options.steps ? "nothing of these steps is recorded" : none_recorded(options.kind);
    }
    return shown;
}

}  // namespace titan::analyzer
