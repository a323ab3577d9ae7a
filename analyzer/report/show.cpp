#include "show.h"

#include <fmt/format.h>

#include "call_site_names.h"
#include "decode_device.h"
#include "flight_recorder.h"
#include "formats/json_value.h"
#include "host/listing.h"
#include "host/words.h"
#include "kernel_name.h"
#include "list_flight_recorder.h"
#include "load.h"
#include "run_text.h"
#include "show_filter.h"
#include "stacks_report.h"

namespace titan::analyzer {
namespace {

using format::ChannelEntry;
using format::CollectiveEntry;
using format::Json;
using format::StreamWorkEntry;

Json number_or_null(uint64_t value) { return value == kNoSequence ? Json(nullptr) : Json(value); }

Json time_or_null(uint64_t ticks) { return ticks == 0 ? Json(nullptr) : Json(ticks); }

// The best of all witnesses, where `state` is what the ring's entry says: after kill -9 the stream's own marks know
// more.
Json device_or_null(const CollectiveEntry& entry, const format::RingImage& image) {
    switch (device_state(entry, image)) {
        case DeviceState::kNotReached: return "not_reached";
        case DeviceState::kGraphStarted: return "graph_started";
        case DeviceState::kStarted: return "started";
        case DeviceState::kFinished: return "finished";
        case DeviceState::kUnknown: break;
    }
    return nullptr;
}

class CallLister {
  public:
    CallLister(const Run& run, const ShowOptions& options) : run_(run), options_(options) {}

    void list(const OpenedSource& opened, ShowFilter& filter, Listing& listing,
              const std::function<void(const std::string&)>& write) {
        image_ = &opened.image;
        sites_ = std::make_unique<CallSites>(opened.image, &symbols_);
        NewestLines lines(options_.last, write);
        const auto add = [&](const auto& json, const auto& cells) {
            options_.json ? lines.add(json()) : listing.add(cells());
        };
        if (options_.work) {
            opened.image.for_each_stream_work([&](uint64_t ticket, const StreamWorkEntry& entry) {
                add([&] { return work_json(ticket, entry); }, [&] { return work_cells(entry); });
            });
        } else if (options_.channels) {
            opened.image.for_each_channel([&](uint64_t ticket, const ChannelEntry& entry) {
                add([&] { return channel_json(ticket, entry); }, [&] { return channel_cells(entry); });
            });
        } else {
            for (const std::string& problem : options_.json ? std::vector<std::string>() : sites_->problems()) {
                write(fmt::format("{:>5}  {}\n", image_->header().rank, problem));
            }
            opened.image.for_each_collective([&](uint64_t ticket, const CollectiveEntry& entry) {
                if (fits(entry, filter)) {
                    add([&] { return json_line(ticket, entry); }, [&] { return call_cells(entry); });
                }
            });
        }
        listing.write_rows();
    }

  private:
    std::string work_json(uint64_t ticket, const StreamWorkEntry& entry) const {
        Json json;
        json["rank"] = image_->header().rank;
        json["ticket"] = ticket;
        json["work"] = std::string(format::name_of(entry.kind));
        json["stream"] = entry.stream;
        json["object"] = entry.object;
        json["amount"] = entry.amount;
        json["name"] = printable(image_->text(entry.name));
        json["call"] = printable(image_->text(entry.call));
        json["thread"] = entry.thread;
        json["flags"] = entry.flags;
        json["entered_ticks"] = time_or_null(entry.entered_ticks);
        return json.dump() + "\n";
    }

    using Cells = std::vector<std::string>;

    Cells work_cells(const StreamWorkEntry& entry) const {
        const std::string name = printable(image_->text(entry.name));
        return {std::to_string(image_->header().rank),
                clock_text(image_->clock().realtime_ns(entry.entered_ticks)),
                std::string(format::name_of(entry.kind)),
                fmt::format("{:#x}", entry.stream),
                grouped_digits(entry.amount),
                (entry.kind == WorkKind::kKernel ? short_kernel_name(name) : name) +
                    ((entry.flags & format::kWorkCaptured) != 0 ? " (captured)" : "")};
    }

    std::string channel_json(uint64_t ticket, const ChannelEntry& entry) const {
        Json json;
        json["rank"] = image_->header().rank;
        json["ticket"] = ticket;
        json["collective"] = entry.collective;
        json["channel"] = entry.channel;
        json["role"] = std::string(format::name_of(entry.role));
        json["channel_state"] = std::string(format::name_of(entry.state));
        json["peer"] = entry.peer;
        json["steps"] = entry.steps;
        json["steps_done"] = entry.steps_done;
        json["started_ticks"] = time_or_null(entry.started_ticks);
        json["updated_ticks"] = time_or_null(entry.updated_ticks);
        return json.dump() + "\n";
    }

    Cells channel_cells(const ChannelEntry& entry) const {
        return {std::to_string(image_->header().rank),
                clock_text(image_->clock().realtime_ns(entry.started_ticks)),
                entry.collective == 0 ? "-" : std::to_string(entry.collective - 1),
                std::to_string(entry.channel),
                std::string(format::name_of(entry.role)),
                std::to_string(entry.peer),
                std::string(format::name_of(entry.state)),
                fmt::format("{}/{}", entry.steps_done, entry.steps)};
    }

    // "replay 12 of graph 2, 3 of 8 channels stopped": what a call has of graphs and channels.
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

    std::string called_at(const CollectiveEntry& entry) const {
        const std::string& place = sites_->place(entry.stack);
        return place.empty() ? std::string() : "  at " + place;
    }

    std::string communicator_name(const CollectiveEntry& entry) const {
        const auto index = run_.find_communicator(entry.communicator_id);
        return index && !run_.communicators[*index].name.empty() ? run_.communicators[*index].name
                                                                 : id_text(entry.communicator_id).substr(0, 8);
    }

    // A peer by its rank in the job, as in the findings; a root as the program passes it.
    std::string peer_text(const CollectiveEntry& entry) const {
        if (format::class_of(entry.kind) == format::OpClass::rooted) {
            return fmt::format(" root {} of the communicator", entry.peer);
        }
        const auto index = run_.find_communicator(entry.communicator_id);
        const int global = index ? run_.global_rank(run_.communicators[*index], entry.peer) : -1;
        return (entry.kind == OpKind::kRecv ? " from " : " to ") +
               (global >= 0 ? fmt::format("rank {}", global) : fmt::format("member {}", entry.peer));
    }

    bool fits(const CollectiveEntry& entry, ShowFilter& filter) const {
        const std::string communicator = communicator_name(entry);
        const std::string id = id_text(entry.communicator_id);
        CallWords words;
        words.communicator = communicator;
        words.communicator_id = id;
        words.op = format::name_of(entry.kind);
        words.state = format::name_of(entry.state);
        words.number = entry.sequence;
        words.step = entry.step;
        return filter.fits(words);
    }

    // One object per entry with the raw values of the ring: the independent decoder of the tests prints the same.
    std::string json_line(uint64_t ticket, const CollectiveEntry& entry) const {
        Json json;
        json["rank"] = image_->header().rank;
        json["ticket"] = ticket;
        json["communicator"] = id_text(entry.communicator_id);
        json["seq"] = number_or_null(entry.sequence);
        json["op"] = op_text(entry.kind);
        json["count"] = entry.count;
        json["datatype"] = datatype_text(entry.datatype);
        json["reduction"] = reduction_text(entry.reduction);
        json["peer"] = entry.peer;
        json["comm_rank"] = entry.comm_rank;
        json["state"] = std::string(format::name_of(entry.state));
        json["result"] = entry.result;
        json["step"] = entry.step;
        json["span"] = printable(image_->text(entry.span));
        json["stream"] = entry.stream;
        json["group"] = entry.group;
        json["group_index"] = entry.group_index;
        json["thread"] = entry.thread;
        json["device"] = entry.device;
        json["send_buffer"] = entry.send_buffer;
        json["receive_buffer"] = entry.receive_buffer;
        json["flags"] = entry.flags;
        json["entered_ticks"] = time_or_null(entry.entered_ticks);
        json["returned_ticks"] = time_or_null(entry.returned_ticks);
        json["gpu_started_ticks"] = time_or_null(entry.gpu_started_ticks);
        json["gpu_finished_ticks"] = time_or_null(entry.gpu_finished_ticks);
        json["on_gpu"] = device_or_null(entry, *image_);
        json["launch"] = entry.launch;
        json["replay"] = entry.replay;
        json["graph"] = entry.graph;
        json["channels"] = entry.channels;
        json["channels_started"] = entry.channels_started;
        json["channels_finished"] = entry.channels_finished;
        json["communicator_name"] = communicator_name(entry);
        if (sites_->recorded()) {
            add_call_site(entry, json);
        }
        json["entered_realtime_ns"] =
            time_or_null(static_cast<uint64_t>(image_->clock().realtime_ns(entry.entered_ticks)));
        return json.dump() + "\n";
    }

    void add_call_site(const CollectiveEntry& entry, Json& json) const {
        const CallStack& stack = sites_->stack(entry.stack);
        json["stack"] = entry.stack;
        json["called_at"] = sites_->place(entry.stack);
        json["python_frames"] = Json::array();
        for (const PythonSite& site : stack.python) {
            json["python_frames"].push_back({{"file", site.file}, {"line", site.line}, {"function", site.function}});
        }
        json["native_frames"] = Json::array();
        for (const StackSite& site : stack.native) {
            json["native_frames"].push_back({{"address", site.address},
                                             {"module", site.module},
                                             {"in_module", site.in_module},
                                             {"function", site.function},
                                             {"file", site.file},
                                             {"line", site.line},
                                             {"inlined", inlined_json(site)}});
        }
        json["python_cut"] = stack.python_cut;
        json["native_cut"] = stack.native_cut;
    }

    Cells call_cells(const CollectiveEntry& entry) const {
        const format::RingClock& clock = image_->clock();
        const std::string number = entry.sequence == kNoSequence ? "-" : fmt::format("#{}", entry.sequence);
        std::string arguments =
            entry.datatype == Datatype::kNoDatatype
                ? std::string()
                : fmt::format("{} x {}", datatype_text(entry.datatype), grouped_digits(entry.count));
        if (entry.reduction != Reduction::kNoReduction) {
            arguments += " " + reduction_text(entry.reduction);
        }
        if (entry.peer >= 0) {
            arguments += peer_text(entry);
        }
        const bool finished = entry.gpu_finished_ticks != 0;
        const std::string took =
            finished ? duration_text(clock.span_ns(entry.entered_ticks, entry.gpu_finished_ticks)) : "";
        const std::string span = printable(image_->text(entry.span));
        std::string where = entry.step >= 0 ? fmt::format("step {}", entry.step) : "";
        where += (span.empty() ? "" : " " + span) + device_details(entry) + called_at(entry);
        return {std::to_string(image_->header().rank),
                clock_text(clock.realtime_ns(entry.entered_ticks)),
                communicator_name(entry),
                number,
                op_text(entry.kind),
                arguments,
                std::string(format::name_of(entry.state)),
                took,
                where};
    }

    const Run& run_;
    const ShowOptions& options_;
    const format::RingImage* image_ = nullptr;
    Symbols symbols_{Symbols::Search::kEverywhere};
    std::unique_ptr<CallSites> sites_;
};

std::vector<ListColumn> columns_of(const ShowOptions& options) {
    if (options.work) {
        return {{"rank", 5, true},    {"handed over", 15}, {"work", 12},
                {"stream", 8, false}, {"amount", 6, true}, {"name", 0}};
    }
    if (options.channels) {
        return {{"rank", 5, true}, {"started", 15},   {"call", 6, true}, {"channel", 7, true},
                {"role", 4},       {"peer", 4, true}, {"state", 5},      {"steps", 5}};
    }
    return {{"rank", 5, true}, {"entered", 15}, {"communicator", 12}, {"seq", 5, true}, {"operation", 10},
            {"arguments", 20}, {"state", 8},    {"took", 6, true},    {"where", 0}};
}

}  // namespace

std::string show(const Run& run, const ShowOptions& options, const std::function<void(const std::string&)>& write) {
    ShowFilter filter(options);
    Listing listing(columns_of(options), options.last, write);
    format::ImageBuffer memory;
    CallLister lister(run, options);
    for (const Process& process : run.processes) {
        if (!options.ranks.empty() && !options.ranks.contains(process.rank)) {
            continue;
        }
        if (process.source.is_flight_recorder) {
            if (!options.work && !options.channels) {
                list_flight_recorder(process, options, filter, listing, write);
            }
            continue;
        }
        const auto opened = open_source(process.source, memory);
        if (opened) {
            lister.list(*opened, filter, listing, write);
        }
    }
    if (!options.json && listing.rows() == 0 && (options.work || options.channels)) {
        return options.work ? "no stream work is recorded (TITANTRACE_CUDA, TITANTRACE_LAUNCHES)"
                            : "no channels are recorded (TITANTRACE_NCCL_PLUGIN=progress)";
    }
    return options.work || options.channels ? std::string() : filter.nothing_fits(run);
}

}  // namespace titan::analyzer
