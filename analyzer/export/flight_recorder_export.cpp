// Keys, names and the meaning of sequence numbers: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp and
// torch/distributed/flight_recorder/components of PyTorch 2.13.
#include "flight_recorder_export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "formats/fr/pickle_writer.h"
#include "fr_names.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "records.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;
using format::PickleWriter;

constexpr std::string_view kVersion = "2.10";
// PyTorch's name of an operation, and the size of its input and output in counts: one, or one per member.
struct OperationName {
    OpKind kind;
    std::string_view name;
    bool input_per_member;
    bool output_per_member;
};
constexpr auto kOperations = std::to_array<OperationName>({
    {OpKind::kAllReduce, "all_reduce", false, false},
    {OpKind::kReduce, "reduce", false, false},
    {OpKind::kBroadcast, "broadcast", false, false},
    {OpKind::kAllGather, "_all_gather_base", false, true},
    {OpKind::kReduceScatter, "_reduce_scatter_base", true, false},
    {OpKind::kAllToAll, "all_to_all", true, true},
    {OpKind::kGather, "gather", false, true},
    {OpKind::kScatter, "scatter", true, false},
    {OpKind::kSend, "send", false, false},
    {OpKind::kRecv, "recv", false, false},
});

const OperationName* name_of_operation(OpKind kind) {
    const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                    [&](const OperationName& row) { return row.kind == kind; });
    return found == kOperations.end() ? nullptr : &*found;
}

std::string_view name_of_state(const Entry& entry) {
    if (entry.state == CallState::kFinished || entry.device == DeviceState::kFinished) {
        return "completed";
    }
    const bool started = entry.state == CallState::kStarted || entry.device == DeviceState::kStarted;
    return started ? "started" : "scheduled";
}

bool is_p2p(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

// A process group in PyTorch's sense: members are known by their global ranks, in ascending order.
struct ProcessGroup {
    std::string name;
    std::string description;
    std::vector<int> ranks;
};

// fr_trace expects all members of a group in each of its calls, and takes point-to-point calls apart only in groups of
// two. So each pair of ranks that talk gets a group of its own, where the n-th call in each direction has a number that
// both sides agree on. Communicator ranks, the lower one first.
struct Pair {
    uint32_t communicator = 0;
    int low = 0;
    int high = 0;
    auto operator<=>(const Pair&) const = default;
};

class Exporter {
  public:
    Exporter(const Run& run, const FlightRecorderExport& options) : run_(run), options_(options) {
        for (const Communicator& communicator : run.communicators) {
            groups_.push_back(group_of(communicator));
            first_sequence_.push_back(first_sequence_of(communicator));
        }
        for (const Process& process : run.processes) {
            note_first_pairs(process);
        }
    }

    ExportResult write_all() {
        size_t done = 0;
        for (const Process& loaded : run_.processes) {
            if (const auto records = reader_.open(loaded)) {
                note_stacks(*records);
                write_process(loaded, records->decoded());
            } else {
                result_.problems.push_back(records.error().text());
            }
            if (options_.progress) {
                options_.progress(++done, run_.processes.size());
            }
        }
        add_notes();
        return std::move(result_);
    }

  private:
    ProcessGroup group_of(const Communicator& communicator) const {
        ProcessGroup group{
            id_text(communicator.id), communicator.name.empty() ? "undefined" : printable(communicator.name), {}};
        for (int rank = 0; rank < communicator.size; ++rank) {
            if (const int global = run_.global_rank(communicator, rank); global >= 0) {
                group.ranks.push_back(global);
            }
        }
        std::sort(group.ranks.begin(), group.ranks.end());
        return group;
    }

    // The first collective from which on the records of all members hold the calls.
    uint64_t first_sequence_of(const Communicator& communicator) const {
        uint64_t first = 0;
        for (const MemberRef ref : communicator.members) {
            const Member& member = run_.member(ref);
            first = std::max(first, member.call_log.empty() ? member.issued : member.call_log.first());
        }
        return first;
    }

    static Pair pair_of(const Member& member, int peer) {
        return {member.communicator, std::min(member.rank, peer), std::max(member.rank, peer)};
    }

    // The n-th call of a direction, alike on both sides.
    static uint64_t pair_number(const Member& member, OpKind kind, int peer, uint64_t sequence) {
        const bool from_low = (kind == OpKind::kSend) == (member.rank < peer);
        return 2 * sequence + (from_low ? 0 : 1);
    }
    static uint64_t pair_number(const Member& member, const Entry& entry) {
        return pair_number(member, entry.kind, entry.peer, entry.sequence);
    }

    // Notes for each pair the first point-to-point call that the records of both sides hold.
    void note_first_pairs(const Process& process) {
        std::map<std::pair<Pair, bool>, uint64_t> first;
        const auto note = [&](uint32_t row, OpKind kind, int peer, uint64_t sequence) {
            if (is_p2p(kind) && row < process.members.size() && sequence != kNoSequence) {
                const Member& member = process.members[row];
                const uint64_t number = pair_number(member, kind, peer, sequence);
                uint64_t& least = first.try_emplace({pair_of(member, peer), number % 2 != 0}, number).first->second;
                least = std::min(least, number);
            }
        };
        for (const PeerCalls& calls : process.passed_pairs) {
            note(calls.row, calls.kind, calls.peer, calls.first);
        }
        for (const Entry& entry : process.entries) {
            note(entry.row, entry.kind, entry.peer, entry.sequence);
        }
        for (const auto& [direction, number] : first) {
            uint64_t& both = first_pair_number_[direction];
            both = std::max(both, number);
        }
    }

    // Stacks by place in the full process, which holds the same entries in the same order.
    void note_stacks(const ProcessRecords& records) {
        sites_ = &records.sites();
        stacks_.clear();
        struct Stacks : RecordVisitor {
            std::vector<uint32_t> of_calls{};
            void collective(const CollectiveRecord& record) override { of_calls.push_back(record.raw.stack); }
        } stacks;
        if (sites_->recorded()) {
            records.visit(RecordKind::kCollective, stacks);
            stacks_ = std::move(stacks.of_calls);
        }
    }

    // A process may drive several ranks: each gets a file.
    void write_process(const Process& loaded, const Process& full) {
        std::set<int> ranks{loaded.rank};
        for (const Member& member : loaded.members) {
            ranks.insert(member.global_rank);
        }
        without_rank_ += ranks.size() == 1 ? ranks.erase(-1) : 0;
        ranks.erase(-1);
        for (const int rank : ranks) {
            write_rank(loaded, full, rank);
        }
    }

    void write_rank(const Process& loaded, const Process& full, int rank) {
        PickleWriter out;
        out.begin_dict().text("version").text(kVersion);
        out.text("rank").integer(rank).text("host_name").text(printable(loaded.host));
        out.text("comm_lib_version").text("");
        out.text("entries").begin_list();
        int64_t calls = 0;
        std::map<std::string, ProcessGroup> groups;
        for (const Member& member : loaded.members) {
            if (member.communicator != kNoIndex && member.global_rank == rank) {
                const ProcessGroup& group = groups_[member.communicator];
                groups.try_emplace(group.name, group);
            }
        }
        for (const Entry& entry : full.entries) {
            if (entry.row >= loaded.members.size()) {
                continue;
            }
            const Member& member = loaded.members[entry.row];
            if (member.communicator == kNoIndex || member.global_rank != rank || !is_exported(member, entry)) {
                continue;
            }
            const auto place = static_cast<size_t>(&entry - full.entries.data());
            const uint32_t frames = place < stacks_.size() ? stacks_[place] : 0;
            if (!is_p2p(entry.kind)) {
                // PyTorch counts from 1.
                write_entry(out, loaded, entry, groups_[member.communicator], entry.sequence + 1, calls++, frames);
            } else if (const auto pair = pair_group(pair_of(member, entry.peer))) {
                groups.try_emplace(pair->name, *pair);
                write_entry(out, loaded, entry, *pair, pair_number(member, entry) + 1, calls++, frames);
            } else {
                ++without_peer_;
            }
        }
        out.end_list();
        write_groups(out, groups);
        out.end_dict();
        const std::string path = fmt::format("{}/{}{}", options_.into, options_.prefix, rank);
        if (const auto problem = write_private_file(path, out.finish())) {
            result_.problems.push_back(problem->within(path).text());
            return;
        }
        set_time(path, loaded.now_ns);
        ++result_.files;
        result_.calls += static_cast<size_t>(calls);
    }

    // Readers take a file's time for the moment of the dump, and so for how long calls have waited.
    static void set_time(const std::string& path, int64_t moment_ns) {
        const timespec moment{static_cast<time_t>(moment_ns / 1'000'000'000), moment_ns % 1'000'000'000};
        const timespec times[] = {moment, moment};
        ::utimensat(AT_FDCWD, path.c_str(), times, 0);
    }

    static void write_groups(PickleWriter& out, const std::map<std::string, ProcessGroup>& groups) {
        out.text("pg_config").begin_dict();
        for (const auto& [name, group] : groups) {
            out.text(name).begin_dict();
            out.text("name").text(name).text("desc").text(group.description);
            out.text("ranks").text(fmt::format("[{}]", fmt::join(group.ranks, ", ")));
            out.end_dict();
        }
        out.end_dict();
    }

    std::optional<ProcessGroup> pair_group(const Pair& pair) const {
        const Communicator& communicator = run_.communicators[pair.communicator];
        const int low = run_.global_rank(communicator, pair.low);
        const int high = run_.global_rank(communicator, pair.high);
        if (low < 0 || high < 0 || low == high) {
            return std::nullopt;
        }
        const ProcessGroup& whole = groups_[pair.communicator];
        return ProcessGroup{fmt::format("{}.{}-{}", whole.name, pair.low, pair.high),
                            fmt::format("{} {}-{}", whole.description, pair.low, pair.high),
                            {std::min(low, high), std::max(low, high)}};
    }

    bool is_exported(const Member& member, const Entry& entry) {
        const bool numbered = format::moves_data(entry.kind);
        if (!numbered || entry.sequence == kNoSequence || entry.state == CallState::kCaptured) {
            return false;
        }
        if (name_of_operation(entry.kind) == nullptr) {
            ++unknown_[op_text(entry.kind)];
            return false;
        }
        if (!is_p2p(entry.kind)) {
            return entry.sequence >= first_sequence_[member.communicator];
        }
        const uint64_t number = pair_number(member, entry);
        const auto first = first_pair_number_.find({pair_of(member, entry.peer), number % 2 != 0});
        return first == first_pair_number_.end() || number >= first->second;
    }

    void write_entry(PickleWriter& out, const Process& loaded, const Entry& entry, const ProcessGroup& group,
                     uint64_t number, int64_t record, uint32_t stack) const {
        const bool p2p = is_p2p(entry.kind);
        out.begin_dict();
        out.text("record_id").integer(record);
        out.text("pg_id").integer(loaded.members[entry.row].communicator);
        out.text("process_group").text(group.name).text(group.description).pair();
        out.text("collective_seq_id").integer(static_cast<int64_t>(number));
        out.text("p2p_seq_id").integer(p2p ? static_cast<int64_t>(number) : 0);
        out.text("op_id").integer(record + 1);
        out.text("profiling_name").text(profiling_name(loaded, entry, group));
        write_times(out, loaded, entry);
        write_sizes(out, loaded, entry);
        out.text("state").text(name_of_state(entry));
        out.text("retired").boolean(name_of_state(entry) == "completed");
        out.text("timeout_ms").integer(loaded.watchdog_ns() / 1'000'000);
        out.text("is_p2p").boolean(p2p);
        write_frames(out, sites_->frames(stack));
        out.end_dict();
    }

    std::string profiling_name(const Process& loaded, const Entry& entry, const ProcessGroup& group) const {
        const std::string_view name = name_of_operation(entry.kind)->name;
        if (!is_p2p(entry.kind)) {
            return fmt::format("nccl:{}", name);
        }
        const Member& member = loaded.members[entry.row];
        const int self = member.global_rank == group.ranks.front() ? 0 : 1;
        return fmt::format("nccl:{} {}{}{}", name, self, entry.kind == OpKind::kSend ? "->" : "<-", 1 - self);
    }

    static void write_frames(PickleWriter& out, const std::vector<CallFrame>& frames) {
        out.text("frames").begin_list();
        for (const CallFrame& frame : frames) {
            out.begin_dict().text("name").text(frame.name).text("filename").text(frame.file);
            out.text("line").integer(frame.line).end_dict();
        }
        out.end_list();
    }

    static void write_times(PickleWriter& out, const Process& loaded, const Entry& entry) {
        const auto time = [&](std::string_view key, int64_t value_ns) {
            out.text(key);
            value_ns == 0 ? out.none() : out.integer(value_ns);
        };
        out.text("time_created_ns").integer(entry.entered_ns);
        // PyTorch looks at unfinished calls when it dumps.
        time("time_discovered_started_ns",
             entry.started_ns != 0 && entry.finished_ns == 0 ? loaded.now_ns : entry.started_ns);
        time("time_discovered_completed_ns", entry.finished_ns);
        if (entry.started_ns != 0 && entry.finished_ns > entry.started_ns) {
            out.text("duration_ms").real(static_cast<double>(entry.finished_ns - entry.started_ns) / 1e6);
        }
    }

    static void write_sizes(PickleWriter& out, const Process& loaded, const Entry& entry) {
        const OperationName& operation = *name_of_operation(entry.kind);
        const auto side = [&](std::string_view sizes, std::string_view datatypes, bool per_member) {
            const int64_t members = per_member ? std::max<int64_t>(loaded.members[entry.row].size, 1) : 1;
            int64_t count = 0;
            if (__builtin_mul_overflow(static_cast<int64_t>(entry.count), members, &count)) {
                count = std::numeric_limits<int64_t>::max();
            }
            out.text(sizes).begin_list().begin_list().integer(count).end_list().end_list();
            out.text(datatypes).begin_list().text(torch_name_of(entry.datatype)).end_list();
        };
        side("input_sizes", "input_dtypes", operation.input_per_member);
        side("output_sizes", "output_dtypes", operation.output_per_member);
    }

    void add_notes() {
        for (const auto& [operation, count] : unknown_) {
            result_.notes.push_back(
                fmt::format("{} calls of {} left out: Flight Recorder has no such operation", count, operation));
        }
        if (without_peer_ != 0) {
            result_.notes.push_back(fmt::format(
                "{} point-to-point calls left out: their peer is not known, or is the caller itself", without_peer_));
        }
        if (without_rank_ != 0) {
            result_.notes.push_back(fmt::format("{} processes without a rank left out", without_rank_));
        }
    }

    const Run& run_;
    const FlightRecorderExport& options_;
    Symbols symbols_{Symbols::Search::kEverywhere};
    RecordReader reader_{run_, symbols_};
    CallSites* sites_ = nullptr;                                   // call sites of the process that is being written
    std::vector<uint32_t> stacks_;                                 // likewise
    std::vector<ProcessGroup> groups_;                             // index: communicator
    std::vector<uint64_t> first_sequence_;                         // likewise
    std::map<std::pair<Pair, bool>, uint64_t> first_pair_number_;  // key: pair and direction
    ExportResult result_;
    std::map<std::string, size_t> unknown_;
    size_t without_peer_ = 0;
    size_t without_rank_ = 0;
};

}  // namespace

Result<ExportResult> export_flight_recorder(const Run& run, const FlightRecorderExport& options) {
    if (std::any_of(run.processes.begin(), run.processes.end(),
                    [](const Process& process) { return process.source.is_flight_recorder; })) {
        return Error("these are Flight Recorder dumps already");
    }
    std::error_code failed;
    files::create_directories(options.into, failed);
    if (!files::is_directory(options.into, failed)) {
        return Error(options.into + ": cannot be made a directory");
    }
    if (!files::is_empty(options.into, failed)) {
        return Error(options.into + " is not empty: fr_trace reads all that is in its directory; name an empty one");
    }
    return Exporter(run, options).write_all();
}

}  // namespace titan::analyzer
