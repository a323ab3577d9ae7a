#include "fr_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "condense.h"
#include "formats/fr/read.h"
#include "fr_names.h"
#include "fr_process.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "record_archive.h"

namespace titan::analyzer {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 29;

// The name without an extension and without the digits that it ends in.
std::string_view without_rank(std::string_view name) {
    // An extension, but not the rank of a name such as trace.3.
    if (const size_t dot = name.rfind('.');
        dot != std::string_view::npos && name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) {
        name = name.substr(0, dot);
    }
    while (!name.empty() && name.back() >= '0' && name.back() <= '9') {
        name.remove_suffix(1);
    }
    return name;
}

Result<format::fr::Dump> dump_of(FlightRecorderScratch& scratch) {
    if (scratch.bytes.size() > kMaxBytes) {
        return Error("larger than any Flight Recorder dump");
    }
    if (const auto error = format::fr::read(scratch.bytes, scratch.tree)) {
        return *error;
    }
    Result<format::fr::Dump> dump = format::fr::to_dump(scratch.tree, scratch.bytes.size());
    if (dump) {
        if (const auto error = number_by_group(*dump)) {
            return *error;
        }
    }
    return dump;
}

}  // namespace

Result<Process> load_flight_recorder_bytes(Source source, FlightRecorderScratch& scratch, GroupRanks& groups) {
    const std::string name(base_name(source.member.empty() ? source.path : source.member));
    const Result<format::fr::Dump> dump = dump_of(scratch);
    if (!dump) {
        return Error(printable(dump.error().text())).within(source.label);
    }
    const int rank = dump->rank >= 0 ? static_cast<int>(dump->rank) : rank_in_name(name);
    if (rank < 0) {
        return Error(source.label + ": its rank is unknown: its name does not end in a rank, and it holds none");
    }
    Process process = process_of_dump(*dump, rank, source.written_ns, groups);
    process.host = process.host.empty() ? printable(std::string(host_in_name(name))) : process.host;
    process.source.path = std::move(source.path);
    process.source.member = std::move(source.member);
    process.source.label = std::move(source.label);
    // Pairs whose beginning is lost are numbered when all processes are there, by their full entries.
    if (process.overwritten == 0) {
        condense(process);
    }
    return process;
}

namespace {

std::optional<Error> read_file(Source& source, FlightRecorderScratch& scratch) {
    if (source.member.empty()) {
        const Result<OpenFile> file = OpenFile::open(source.path);
        if (!file) {
            return file.error();
        }
        if (file->size_bytes() > kMaxBytes) {
            return Error("larger than any Flight Recorder dump");
        }
        source.written_ns = file->modified_ns();
        scratch.bytes.resize(file->size_bytes());
        scratch.bytes.resize(file->read_at(0, scratch.bytes.data(), scratch.bytes.size()));
        return std::nullopt;
    }
    scratch.bytes.clear();
    return read_member(source.path, source.member, scratch.bytes, kMaxBytes + 1);
}

}  // namespace

int rank_in_name(std::string_view name) {
    const std::string_view before = without_rank(name);
    int rank = -1;
    const auto [end, error] = std::from_chars(name.data() + before.size(), name.data() + name.size(), rank);
    constexpr int kMaxRank = 1 << 20;
    return error == std::errc() && rank < kMaxRank ? rank : -1;
}

std::string_view host_in_name(std::string_view name) {
    constexpr std::string_view kRank = "rank_";
    std::string_view before = without_rank(name);
    const size_t begin = before.find(kRank);
    if (begin == std::string_view::npos || before.size() < begin + kRank.size() + 2) {
        return {};
    }
    before.remove_prefix(begin + kRank.size());
    before.remove_suffix(1);  // the separator before the rank
    const bool is_name =
        std::any_of(before.begin(), before.end(), [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; });
    return is_name ? before : std::string_view();
}

Result<format::fr::Dump> read_flight_recorder(Source source, FlightRecorderScratch& scratch) {
    if (const auto error = read_file(source, scratch)) {
        return *error;
    }
    return dump_of(scratch);
}

Result<Process> load_flight_recorder(const std::string& path, FlightRecorderScratch& scratch, GroupRanks& groups) {
    Source source;
    source.path = path;
    source.label = printable(std::string(base_name(path)));
    if (const auto error = read_file(source, scratch)) {
        return Error(printable(error->text())).within(source.label);
    }
    return load_flight_recorder_bytes(std::move(source), scratch, groups);
}

// --- torchcomms' dumps

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
