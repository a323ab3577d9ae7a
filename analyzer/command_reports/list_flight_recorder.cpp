// The calls of a Flight Recorder dump, one a line, in PyTorch's own numbers and words.
#include "list_flight_recorder.h"

#include <fmt/format.h>

#include "fr_names.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

namespace fr = format::fr;
bool is_p2p(const CallName& name) { return name.kind == OpKind::kSend || name.kind == OpKind::kRecv; }

// The closing entry of a batch has no operation of its own that tells.
int64_t number_of(const TorchCallRecord& record) {
    return is_p2p(record.name) || record.raw.is_p2p ? record.raw.p2p_seq_id : record.raw.collective_seq_id;
}

}  // namespace

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

std::vector<std::string> torch_call_cells(const TorchCallRecord& record) {
    const fr::Entry& entry = record.raw;
    const int64_t number = number_of(record);
    const bool timed = entry.time_completed_ns > entry.time_created_ns && entry.time_created_ns > 0;
    const std::string peer = is_p2p(record.name) && record.name.source >= 0
                                 ? fmt::format(" {}->{}", record.name.source, record.name.target)
                                 : std::string();
    const bool retired = entry.retired && entry.state != fr::State::kCompleted;
    return {std::to_string(record.of.rank()),
            fine_date_text(entry.time_created_ns),
            record.group(),
            number < 0 ? "-" : fmt::format("#{}", number),
            printable(record.name.op) + peer,
            printable(record.datatype()) + " " + shapes_text(record.dump, entry),
            std::string(record.state()) + (retired ? ", retired" : ""),
            timed ? duration_text(entry.time_completed_ns - entry.time_created_ns) : "",
            call_site(record.dump, entry)};
}

}  // namespace titan::analyzer
