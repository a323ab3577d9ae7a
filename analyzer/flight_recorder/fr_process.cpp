#include "fr_process.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/hash.h"
#include "decode_timing.h"
#include "formats/layout/dump_layout.h"
#include "fr_groups.h"
#include "fr_names.h"
#include "host/words.h"
#include "index_calls.h"
#include "made_texts.h"

namespace titan::analyzer {
namespace {

namespace fr = format::fr;

// PyTorch gives each communicator a stream of its own; which it is, a dump does not say. Above the handles that mean
// the default stream.
constexpr uint64_t kFirstLane = 0x1000;
constexpr ptrdiff_t kExchanges = 256;
constexpr size_t kMostSplits = 4096;  // numbers of the newest exchanges that are kept by rank
constexpr uint64_t kFirstPairLane = uint64_t{1} << 40;
// Parts of a coalesced call follow each other, but for what other threads do meanwhile: where some are overwritten, the
// others are among the first that are left.
constexpr ptrdiff_t kEdgeOfRing = 16;

class Hash {
  public:
    Hash& add(uint64_t number) {
        value_ = (value_ ^ number) * 0xFF51AFD7ED558CCD;
        value_ ^= value_ >> 32;
        return *this;
    }
    Hash& add(std::string_view text) { return add(fnv1a64(text.data(), text.size())); }
    uint64_t value() const { return value_ == 0 ? 1 : value_; }
    uint32_t folded() const {
        const auto folded = static_cast<uint32_t>(value_ ^ (value_ >> 32));
        return folded == 0 ? 1 : folded;
    }

  private:
    uint64_t value_ = kHashMultiplier;
};

uint64_t elements(const fr::Dump& dump, const fr::Range& range) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < range.count; ++i) {
        sum += dump.tensors[range.begin + i].elements;
    }
    return sum;
}

class ProcessMaker {
  public:
    ProcessMaker(const fr::Dump& dump, int rank, int64_t written_ns, GroupRanks& groups)
        : dump_(dump), groups_(groups) {
        const int64_t first = dump.entries.empty() ? 0 : dump.entries.front().record_id;
        process_.overwritten = first > 0 ? static_cast<uint64_t>(first) : 0;
        process_.rank = rank;
        process_.source.written_ns = written_ns;
        process_.texts.emplace_back();
        process_.source.is_flight_recorder = true;
        process_.source.recorder_minor = dump.minor;
        process_.sees = kFlightRecorderCoverage;
        process_.liveness = Liveness::kAlive;
        process_.host = printable(dump.host_name);
    }

    Process make() {
        for (const fr::Group& group : dump_.groups) {
            // Gloo registers its groups before they have a name, and then knows no ranks either.
            if (!group.ranks.empty()) {
                add_member(group.name, group.desc, &group.ranks);
            }
        }
        names_.resize(dump_.texts.size());
        for (const fr::Entry& entry : dump_.entries) {
            add(entry);
        }
        for (uint32_t row = 0; row < open_.size(); ++row) {
            close_group(row, nullptr);
        }
        drop_folded();
        finish_states();
        set_moment(dump_, process_);
        finish_members();
        sample_arrivals(process_);
        return std::move(process_);
    }

  private:
    // Calls of one group with one sequence number that may turn out to be coalesced.
    struct OpenGroup {
        int64_t collective = 0;  // numbers
        int64_t p2p = 0;
        bool is_p2p = false;
        bool cut = false;             // earlier calls of its group are overwritten
        std::vector<uint32_t> calls;  // process_.entries
        std::vector<const fr::Entry*> raw;
    };

    struct Numbers {
        int64_t newest = 0;
        uint64_t batches = 0;
        bool known = false;
    };

    uint32_t add_member(uint32_t name, uint32_t desc, const std::vector<int32_t>* ranks) {
        const auto [found, inserted] = rows_.try_emplace(name, static_cast<uint32_t>(process_.members.size()));
        if (!inserted) {
            return found->second;
        }
        Member member;
        Hash identity;
        identity.add(dump_.text(name));
        if (ranks != nullptr) {
            std::vector<int32_t> sorted = *ranks;
            std::sort(sorted.begin(), sorted.end());
            for (const int32_t rank : sorted) {
                identity.add(static_cast<uint64_t>(rank));
            }
            const auto self = std::find(ranks->begin(), ranks->end(), process_.rank);
            member.rank = self == ranks->end() ? -1 : static_cast<int32_t>(self - ranks->begin());
            member.size = static_cast<int32_t>(ranks->size());
            groups_.add(identity.value(), *ranks);
            if (dump_.text(desc) == "default_pg") {
                process_.world_size = member.size;
            }
        } else {
            identity.add(dump_.text(desc));
            member.identity_guessed = true;
        }
        member.id = identity.value();
        member.name = made_texts_.add(group_text(dump_.text(name), dump_.text(desc)));
        member.state = CommState::kLive;
        member.origin = OpKind::kCommInit;
        process_.members.push_back(std::move(member));
        return found->second;
    }

    const CallName& name_of(uint32_t text) {
        std::optional<CallName>& known = names_[text];
        if (!known) {
            known = parse_call_name(dump_.text(text));
        }
        return *known;
    }

    void add(const fr::Entry& raw) {
        const CallName& name = name_of(raw.name);
        const uint32_t row = add_member(raw.group, raw.group_desc, nullptr);
        open_.resize(process_.members.size());
        seen_.resize(process_.members.size());
        const bool cut = process_.overwritten != 0 && !seen_[row] && &raw - dump_.entries.data() < kEdgeOfRing;
        seen_[row] = true;
        OpenGroup& open = open_[row];
        if (name.closes_group && closes(open, raw)) {
            close_group(row, &raw);
            return;
        }
        const bool p2p = name.kind == OpKind::kSend || name.kind == OpKind::kRecv;
        note_batches(raw, row, p2p);
        if (name.closes_group && raw.is_p2p) {
            return;  // its calls are lost: senders and receivers are unknown
        }
        if (open.calls.empty() || open.is_p2p != p2p || !same_numbers(open, raw)) {
            close_group(row, nullptr);
            open.is_p2p = p2p;
            open.cut = cut;
            open.collective = raw.collective_seq_id;
            open.p2p = raw.p2p_seq_id;
        }
        open.calls.push_back(static_cast<uint32_t>(process_.entries.size()));
        open.raw.push_back(&raw);
        process_.entries.push_back(p2p ? make_p2p(raw, name, row) : make_collective(raw, name, row));
    }

    // Up to dumps of version 2.4, each rank's batches of sends and receives counted as collectives, too.
    void note_batches(const fr::Entry& raw, uint32_t row, bool p2p) {
        constexpr int kLastMinor = 4;
        if (dump_.minor > kLastMinor || raw.collective_seq_id < 0) {
            return;
        }
        numbers_.resize(process_.members.size());
        Numbers& numbers = numbers_[row];
        if (p2p && (numbers.known || dump_.entries.front().record_id == 0) && raw.collective_seq_id > numbers.newest) {
            numbers.batches += static_cast<uint64_t>(raw.collective_seq_id - numbers.newest);
        }
        numbers.newest = raw.collective_seq_id;
        numbers.known = true;
    }

    uint64_t sequence_of(const fr::Entry& raw, uint32_t row) const {
        if (raw.collective_seq_id < 0) {
            return kNoSequence;
        }
        const auto number = static_cast<uint64_t>(raw.collective_seq_id);
        const uint64_t batches = row < numbers_.size() ? numbers_[row].batches : 0;
        return number - std::min(number, batches);
    }

    // Sends and receives: both numbers, because early versions gave all batches of a rank one p2p_seq_id.
    static bool same_numbers(const OpenGroup& open, const fr::Entry& raw) {
        return open.collective == raw.collective_seq_id &&
               (open.is_p2p ? open.p2p == raw.p2p_seq_id : open.collective >= 0);
    }

    static bool closes(const OpenGroup& open, const fr::Entry& raw) {
        return !open.calls.empty() && same_numbers(open, raw);
    }

    Entry make_call(const fr::Entry& raw, const CallName& name, uint32_t row) {
        Entry entry;
        entry.row = row;
        entry.kind = name.kind;
        entry.stream = kFirstLane + row;
        entry.thread = raw.thread;
        entry.site = site_of(raw);
        entry.shape = shape_of(raw);
        const fr::Range& tensors = raw.inputs.count != 0 ? raw.inputs : raw.outputs;
        if (tensors.count != 0) {
            const std::string& dtype = dump_.text(dump_.tensors[tensors.begin].dtype);
            entry.datatype = datatype_of(dtype);
            if (entry.datatype == Datatype::kNoDatatype && !dtype.empty()) {
                entry.agreed = Hash().add(dtype).folded();
            }
        }
        set_progress(raw, name, entry);
        return entry;
    }

    // Its times are those at which PyTorch's watchdog came to look.
    void set_progress(const fr::Entry& raw, const CallName& name, Entry& entry) {
        entry.entered_ns = raw.time_created_ns;
        entry.finished_ns = raw.time_completed_ns;
        entry.started_ns = start_of(raw);
        // Gloo works without events: that its call ended is only told by the recorder's letting go of it.
        const bool done = raw.state == fr::State::kCompleted || (name.backend == "gloo" && raw.retired);
        entry.state = done                               ? CallState::kFinished
                      : raw.state == fr::State::kStarted ? CallState::kStarted
                                                         : CallState::kPending;
        // PyTorch looks at a call once more when it lets go of it (retire_id in FlightRecorderDetail.hpp); at Gloo's
        // never.
        const bool watched = name.backend != "gloo";
        entry.device = done                               ? DeviceState::kFinished
                       : raw.state == fr::State::kStarted ? DeviceState::kStarted
                       : watched                          ? DeviceState::kNotReached
                                                          : DeviceState::kUnknown;
        if (raw.time_started_ns != 0 && watched) {
            const bool with_its_end = raw.time_started_ns == raw.time_completed_ns;
            process_.starts_with_ends = with_its_end && (process_.starts_with_ends || !process_.starts_seen);
            process_.starts_seen = true;
        }
        if (!done) {
            constexpr int64_t kMostMs = INT64_MAX / 1'000'000;
            const auto timeout_ms = static_cast<uint64_t>(std::clamp<int64_t>(raw.timeout_ms, 0, kMostMs));
            process_.timeout_ns = std::max(process_.timeout_ns, timeout_ms * 1'000'000);
            timed_out_ |= raw.retired;
        }
    }

    // Only where PyTorch timed the call (TORCH_NCCL_ENABLE_TIMING): when it saw a call start says less.
    static int64_t start_of(const fr::Entry& raw) {
        constexpr double kLongestMs = 1e9;
        const bool timed = raw.duration_ms > 0 && raw.duration_ms < kLongestMs && raw.time_completed_ns > 0;
        const auto duration_ns = static_cast<int64_t>(timed ? raw.duration_ms * 1e6 : 0);
        return timed && duration_ns < raw.time_completed_ns ? raw.time_completed_ns - duration_ns : 0;
    }

    Entry make_p2p(const fr::Entry& raw, const CallName& name, uint32_t row) {
        Entry entry = make_call(raw, name, row);
        const bool send = name.kind == OpKind::kSend;
        entry.peer = send ? name.target : name.source;
        entry.count = elements(dump_, raw.inputs.count != 0 ? raw.inputs : raw.outputs);
        entry.recorder_number = static_cast<int32_t>(std::clamp<int64_t>(raw.p2p_seq_id, -1, INT32_MAX));
        const int self = send ? name.source : name.target;
        entry.sequence = entry.peer < 0 ? kNoSequence : p2p_counts_[{row, entry.peer, send}]++;
        // A single call runs on a communicator of the two alone.
        entry.stream = kFirstPairLane + (uint64_t{row} << 48) +
                       (static_cast<uint64_t>(std::min(self, entry.peer) & 0xFFFFF) << 20) +
                       static_cast<uint64_t>(std::max(self, entry.peer) & 0xFFFFF);
        Member& member = process_.members[row];
        if (member.identity_guessed && member.rank < 0) {
            member.rank = self;
        }
        return entry;
    }

    Entry make_collective(const fr::Entry& raw, const CallName& name, uint32_t row) {
        Entry entry = make_call(raw, name, row);
        entry.sequence = sequence_of(raw, row);
        const uint64_t in = elements(dump_, raw.inputs);
        const uint64_t out = elements(dump_, raw.outputs);
        switch (entry.kind) {
            case OpKind::kAllGather:
                entry.count = in;
                entry.agreed ^= Hash().add(out).folded();
                break;
            case OpKind::kReduceScatter:
                entry.count = out;
                entry.agreed ^= Hash().add(in).folded();
                break;
            case OpKind::kScatter: entry.count = out; break;
            case OpKind::kAllReduce:
                entry.count = in;
                entry.agreed ^= in == out ? 0 : Hash().add(out).folded();
                break;
            case OpKind::kOtherCollective:
                entry.count = in;
                entry.agreed ^= Hash().add(name.op).folded();
                break;
            default: entry.count = in != 0 ? in : out;
        }
        if (name.sizes_may_differ) {
            entry.count = 0;
            entry.agreed = 0;
        }
        if (entry.kind == OpKind::kAllToAll && entry.sequence != kNoSequence) {
            const int32_t size = process_.members[row].size;
            process_.exchanges.push_back({row, entry.sequence, in, out, splits_of(raw.input_splits, size, in),
                                          splits_of(raw.output_splits, size, out)});
        }
        return entry;
    }

    // Only where they are the elements of the tensors, divided among the members.
    std::vector<uint64_t> splits_of(const fr::Range& range, int32_t members, uint64_t elements) const {
        const auto first = dump_.splits.begin() + range.begin;
        const auto last = first + range.count;
        const bool whole = range.count != 0 && static_cast<int64_t>(range.count) == members &&
                           std::accumulate(first, last, uint64_t{0}) == elements;
        return whole ? std::vector<uint64_t>(first, last) : std::vector<uint64_t>();
    }

    void trim_exchanges() {
        std::vector<Exchange>& exchanges = process_.exchanges;
        if (std::ssize(exchanges) > kExchanges) {
            exchanges.erase(exchanges.begin(), exchanges.end() - kExchanges);
        }
        size_t kept = 0;
        for (auto exchange = exchanges.rbegin(); exchange != exchanges.rend(); ++exchange) {
            kept += exchange->sent_to.size() + exchange->received_from.size();
            if (kept > kMostSplits) {
                exchange->sent_to.clear();
                exchange->received_from.clear();
            }
        }
    }

    // `end`: the entry that stands for the whole group, null where the group has none (or is none at all).
    void close_group(uint32_t row, const fr::Entry* end) {
        OpenGroup open = std::exchange(open_[row], {});
        if (open.calls.empty()) {
            return;
        }
        if (open.cut && !open.is_p2p && (end != nullptr || may_be_a_part(*open.raw.front()))) {
            lose_arguments(process_.entries[open.calls.front()]);
        }
        if (open.calls.size() == 1 && end == nullptr) {
            return;
        }
        // Coalesced calls have no progress of their own.
        const bool tracked = std::any_of(open.calls.begin(), open.calls.end(), [&](uint32_t index) {
            return process_.entries[index].state != CallState::kPending;
        });
        if (end == nullptr && tracked) {
            return;
        }
        const auto group = ++groups_made_;
        for (const uint32_t index : open.calls) {
            Entry& call = process_.entries[index];
            call.group = group;
            call.stream = kFirstLane + row;
            if (end != nullptr) {
                const int64_t entered_ns = call.entered_ns;
                set_progress(*end, name_of(end->name), call);
                call.entered_ns = entered_ns;
            } else if (call.state == CallState::kPending) {
                call.state = CallState::kGrouped;
            }
        }
        if (!open.is_p2p) {
            fold(open, end);
        }
    }

    // Parts of a coalesced call have no progress of their own.
    bool may_be_a_part(const fr::Entry& raw) {
        const bool watched = raw.retired || raw.state == fr::State::kStarted || raw.state == fr::State::kCompleted;
        return !watched || name_of(raw.name).closes_group;
    }

    void lose_arguments(Entry& call) {
        call.arguments_lost = true;
        std::erase_if(process_.exchanges, [&](const Exchange& exchange) {
            return exchange.row == call.row && exchange.sequence == call.sequence;
        });
    }

    // Collectives that run as one have one sequence number, and so become one call.
    void fold(const OpenGroup& open, const fr::Entry* end) {
        Entry& first = process_.entries[open.calls.front()];
        const bool one_kind = std::all_of(open.calls.begin(), open.calls.end(),
                                          [&](uint32_t index) { return process_.entries[index].kind == first.kind; });
        Hash agreed;
        std::string shape = std::to_string(open.calls.size()) + " coalesced:";
        uint64_t count = 0;
        for (size_t i = 0; i < open.calls.size(); ++i) {
            const Entry& call = process_.entries[open.calls[i]];
            agreed.add(static_cast<uint64_t>(call.kind)).add(call.count).add(static_cast<uint64_t>(call.datatype));
            agreed.add(call.agreed);
            count += call.count;
            if (i < 4) {
                shape +=
                    " " + std::string(name_of(open.raw[i]->name).op) + " " + shapes_text(dump_, *open.raw[i]) + ";";
            }
            if (i > 0) {
                folded_.push_back(open.calls[i]);
            }
        }
        const OpKind closing = end == nullptr ? OpKind::kOtherCollective : name_of(end->name).kind;
        first.kind = closing != OpKind::kOtherCollective ? closing : one_kind ? first.kind : OpKind::kOtherCollective;
        first.count = count;
        first.agreed = agreed.folded();
        shape.back() = ' ';
        first.shape = made_texts_.add(printable(shape.substr(0, shape.size() - 1)));
    }

    void drop_folded() {
        if (folded_.empty()) {
            return;
        }
        std::sort(folded_.begin(), folded_.end());
        size_t kept = 0;
        for (size_t i = 0; i < process_.entries.size(); ++i) {
            if (!std::binary_search(folded_.begin(), folded_.end(), static_cast<uint32_t>(i))) {
                process_.entries[kept++] = process_.entries[i];
            }
        }
        process_.entries.resize(kept);
    }

    void finish_states() {
        for (Entry& entry : process_.entries) {
            const bool starts_seen = process_.starts_seen && entry.state == CallState::kPending;
            if (entry.device == DeviceState::kNotReached && !starts_seen) {
                entry.device = DeviceState::kUnknown;
            }
        }
        process_.source.reason = timed_out_ ? format::DumpReason::kTimeout : format::DumpReason{};
    }

    void finish_members() {
        set_group_status();
        for (uint32_t row = 0; row < process_.members.size(); ++row) {
            Member& member = process_.members[row];
            member.issued = member.finished = 1;  // PyTorch's first number is 1
            member.p2p_counted = process_.overwritten == 0;
            set_finished(member, row);
        }
        index_calls(process_);
        trim_exchanges();
        for (const auto& [key, count] : p2p_counts_) {
            const auto& [row, peer, send] = key;
            Member& member = process_.members[row];
            (send ? member.sent : member.received).emplace_back(peer, count);
        }
    }

    // Told by number, which only the entries connect with a group.
    void set_group_status() {
        std::unordered_map<std::string, uint32_t> row_of;
        for (const fr::Entry& raw : dump_.entries) {
            if (const auto row = rows_.find(raw.group); raw.pg_id >= 0 && row != rows_.end()) {
                row_of.try_emplace(std::to_string(raw.pg_id), row->second);
            }
        }
        for (const fr::GroupStatus& status : dump_.status) {
            if (const auto row = row_of.find(dump_.text(status.pg_id)); row != row_of.end()) {
                Member& member = process_.members[row->second];
                member.last_enqueued = status.last_enqueued;
                member.last_started = status.last_started;
                member.last_completed = status.last_completed;
            }
        }
    }

    // With TORCH_INCLUDE_ONLY_ACTIVE, files hold only unfinished calls: a call that is not there, and is older than the
    // last collective that PyTorch calls completed, has finished. This does not hold for a group with sends and
    // receives, which have their own numbers.
    void set_finished(Member& member, uint32_t row) const {
        const auto of_row = [&](const Entry& entry) { return entry.row == row; };
        const auto first = std::find_if(process_.entries.begin(), process_.entries.end(), of_row);
        if (first != process_.entries.end() && first->sequence != kNoSequence && member.last_completed > 0 &&
            static_cast<uint64_t>(member.last_completed) + 1 == first->sequence &&
            std::all_of(first, process_.entries.end(),
                        [&](const Entry& entry) { return !of_row(entry) || format::is_collective(entry.kind); })) {
            member.finished = first->sequence;
        }
    }

    uint32_t site_of(const fr::Entry& raw) {
        if (raw.stack.count == 0) {
            return 0;
        }
        Hash hash;
        for (uint32_t i = 0; i < raw.stack.count; ++i) {
            hash.add(dump_.stacks[raw.stack.begin + i]);
        }
        const auto [found, inserted] = sites_.try_emplace(hash.value(), 0);
        if (inserted) {
            found->second = made_texts_.add(call_way(dump_, raw));
        }
        return found->second;
    }

    uint32_t shape_of(const fr::Entry& raw) {
        Hash hash;
        for (const fr::Range* range : {&raw.inputs, &raw.outputs}) {
            hash.add(range->count);
            for (uint32_t i = 0; i < range->count; ++i) {
                const fr::Tensor& tensor = dump_.tensors[range->begin + i];
                hash.add(tensor.dims_count);
                for (uint32_t dim = 0; dim < tensor.dims_count; ++dim) {
                    hash.add(static_cast<uint64_t>(dump_.dims[tensor.dims_begin + dim]));
                }
            }
        }
        const auto [found, inserted] = shapes_.try_emplace(hash.value(), 0);
        if (inserted) {
            found->second = made_texts_.add(shapes_text(dump_, raw));
        }
        return found->second;
    }

    const fr::Dump& dump_;
    GroupRanks& groups_;
    Process process_;
    std::unordered_map<uint32_t, uint32_t> rows_;  // group's name -> member
    std::vector<std::optional<CallName>> names_;   // index: text
    MadeTexts made_texts_{process_.texts};
    std::unordered_map<uint64_t, uint32_t> sites_;
    std::unordered_map<uint64_t, uint32_t> shapes_;
    std::map<std::tuple<uint32_t, int, bool>, uint64_t> p2p_counts_;
    std::vector<OpenGroup> open_;   // index: row
    std::vector<bool> seen_;        // index: row
    std::vector<Numbers> numbers_;  // index: row
    std::vector<uint32_t> folded_;
    uint32_t groups_made_ = 0;
    bool timed_out_ = false;
};

}  // namespace

Process process_of_dump(const fr::Dump& dump, int rank, int64_t written_ns, GroupRanks& groups) {
    return ProcessMaker(dump, rank, written_ns, groups).make();
}

}  // namespace titan::analyzer
