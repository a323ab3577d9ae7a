// Dumps of torchcomms' recorder hook: PyTorch's format, but calls of all communicators, sends and receives among them,
// are numbered together, a call that was retired is done, and sends and receives do not tell their peers. Facts:
// comms/torchcomms/hooks/fr/FlightRecorder.cpp.
#include "fr_torchcomms.h"

#include <algorithm>
#include <unordered_map>

#include "fr_names.h"

namespace titan::analyzer {
namespace {

namespace fr = format::fr;

bool is_torchcomms(const fr::Dump& dump) {
    if (dump.entries.empty() || dump.entries.front().record_id < 0) {
        return false;
    }
    const fr::Entry& first = dump.entries.front();
    return std::all_of(dump.entries.begin(), dump.entries.end(), [&](const fr::Entry& entry) {
        // Its groups are described by their backend, which PyTorch's never are.
        return entry.p2p_seq_id == 0 && entry.collective_seq_id >= 0 && entry.record_id >= first.record_id &&
               entry.collective_seq_id - first.collective_seq_id == entry.record_id - first.record_id &&
               parse_call_name(dump.text(entry.name)).backend == dump.text(entry.group_desc);
    });
}

}  // namespace

std::optional<Error> number_by_group(fr::Dump& dump) {
    if (!is_torchcomms(dump)) {
        return std::nullopt;
    }
    const auto is_pair = [&](const fr::Entry& entry) {
        const OpKind kind = parse_call_name(dump.text(entry.name)).kind;
        return kind == OpKind::kSend || kind == OpKind::kRecv;
    };
    const int64_t lost = dump.entries.front().record_id;
    if (lost > 0 && (dump.groups.size() != 1 || std::any_of(dump.entries.begin(), dump.entries.end(), is_pair))) {
        return Error(
            "torchcomms numbers the calls of all communicators together, and older ones are overwritten: which calls "
            "belong together is not recorded (a larger TORCHCOMM_FR_BUFFER_SIZE keeps them)");
    }
    std::unordered_map<uint32_t, int64_t> newest;
    for (fr::Entry& entry : dump.entries) {
        if (entry.retired) {
            entry.state = fr::State::kCompleted;
        }
        entry.is_p2p = is_pair(entry);
        entry.collective_seq_id = entry.is_p2p ? -1 : newest.try_emplace(entry.group, lost).first->second += 1;
    }
    return std::nullopt;
}

}  // namespace titan::analyzer
