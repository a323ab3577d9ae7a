// The calls of a Flight Recorder dump, one a line, in PyTorch's own numbers and words.
#include "list_flight_recorder.h"

#include <fmt/format.h>

#include "flight_recorder.h"
#include "formats/json_value.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

namespace fr = format::fr;
using format::Json;

const char* state_name(fr::State state) {
    switch (state) {
        case fr::State::kScheduled: return "scheduled";
        case fr::State::kStarted: return "started";
        case fr::State::kCompleted: return "completed";
        case fr::State::kUnknown: break;
    }
    return "unknown";
}

class Lister {
  public:
    Lister(const fr::Dump& dump, const Process& process, const ShowOptions& options)
        : dump_(dump), process_(process), options_(options) {}

    void list(ShowFilter& filter, Listing& listing, const std::function<void(const std::string&)>& write) const {
        NewestLines lines(options_.last, write);
        for (const fr::Entry& entry : dump_.entries) {
            const CallName name = parse_call_name(dump_.text(entry.name));
            if (!filter.fits(words_of(entry, name, group_of(entry)))) {
                continue;
            }
            if (options_.json) {
                lines.add(json_line(entry, name));
            } else {
                listing.add(cells(entry, name));
            }
        }
        listing.write_rows();
    }

  private:
    std::string group_of(const fr::Entry& entry) const {
        return group_text(dump_.text(entry.group), dump_.text(entry.group_desc));
    }

    static bool is_p2p(const CallName& name) { return name.kind == OpKind::kSend || name.kind == OpKind::kRecv; }

    // The closing entry of a batch has no operation of its own that tells.
    static int64_t number_of(const fr::Entry& entry, const CallName& name) {
        return is_p2p(name) || entry.is_p2p ? entry.p2p_seq_id : entry.collective_seq_id;
    }

    CallWords words_of(const fr::Entry& entry, const CallName& name, const std::string& group) const {
        const int64_t number = number_of(entry, name);
        CallWords words;
        words.communicator = group;
        words.other_communicator = dump_.text(entry.group);
        words.op = name.op;
        words.other_op = format::name_of(name.kind);
        words.state = state_name(entry.state);
        words.number = number < 0 ? kNoSequence : static_cast<uint64_t>(number);
        return words;
    }

    std::string dtype_of(const fr::Entry& entry) const {
        const fr::Range& tensors = entry.inputs.count != 0 ? entry.inputs : entry.outputs;
        return tensors.count == 0 ? std::string() : dump_.text(dump_.tensors[tensors.begin].dtype);
    }

    std::vector<std::string> cells(const fr::Entry& entry, const CallName& name) const {
        const int64_t number = number_of(entry, name);
        const bool timed = entry.time_completed_ns > entry.time_created_ns && entry.time_created_ns > 0;
        const std::string peer =
            is_p2p(name) && name.source >= 0 ? fmt::format(" {}->{}", name.source, name.target) : std::string();
        const bool retired = entry.retired && entry.state != fr::State::kCompleted;
        return {std::to_string(process_.rank),
                clock_text(entry.time_created_ns),
                group_of(entry),
                number < 0 ? "-" : fmt::format("#{}", number),
                printable(name.op) + peer,
                printable(dtype_of(entry)) + " " + shapes_text(dump_, entry),
                std::string(state_name(entry.state)) + (retired ? ", retired" : ""),
                timed ? duration_text(entry.time_completed_ns - entry.time_created_ns) : "",
                call_site(dump_, entry)};
    }

    static Json number_or_null(int64_t number) { return number == fr::kUnknownNumber ? Json(nullptr) : Json(number); }

    std::string json_line(const fr::Entry& entry, const CallName& name) const {
        Json json;
        json["rank"] = process_.rank;
        json["record_id"] = number_or_null(entry.record_id);
        json["communicator_name"] = group_of(entry);
        json["process_group"] = {printable(dump_.text(entry.group)), printable(dump_.text(entry.group_desc))};
        json["collective_seq_id"] = number_or_null(entry.collective_seq_id);
        json["p2p_seq_id"] = number_or_null(entry.p2p_seq_id);
        json["op_id"] = number_or_null(entry.op_id);
        json["op"] = std::string(format::name_of(name.kind));
        json["profiling_name"] = printable(dump_.text(entry.name));
        json["shapes"] = shapes_text(dump_, entry);
        json["dtype"] = printable(dtype_of(entry));
        json["state"] = state_name(entry.state);
        json["retired"] = entry.retired;
        json["is_p2p"] = entry.is_p2p;
        json["timeout_ms"] = entry.timeout_ms;
        json["time_created_ns"] = entry.time_created_ns;
        json["time_discovered_started_ns"] = entry.time_started_ns;
        json["time_discovered_completed_ns"] = entry.time_completed_ns;
        json["called_at"] = call_site(dump_, entry);
        return json.dump() + "\n";
    }

    const fr::Dump& dump_;
    const Process& process_;
    const ShowOptions& options_;
};

}  // namespace

void list_flight_recorder(const Process& process, const ShowOptions& options, ShowFilter& filter, Listing& listing,
                          const std::function<void(const std::string&)>& write) {
    FlightRecorderScratch scratch;
    if (const auto dump = read_flight_recorder(process.source, scratch)) {
        Lister(*dump, process, options).list(filter, listing, write);
    }
}

}  // namespace titan::analyzer
