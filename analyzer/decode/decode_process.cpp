// Fields without a meaning for an operation are set to "none" here, so that nobody later
// compares the root of an all_reduce.
#include "decode_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <unordered_map>

#include "call_site_names.h"
#include "decode_config.h"
#include "decode_device.h"
#include "decode_metrics.h"
#include "decode_timing.h"
#include "formats/ring/call_sites_image.h"
#include "formats/ring/stacks_image.h"
#include "host/words.h"
#include "index_calls.h"
#include "text_table.h"

namespace titan::analyzer {
namespace {

using format::CollectiveEntry;
using format::CommunicatorRecord;
using format::OpClass;
using format::ThreadRecord;

bool reduces(OpKind kind) {
    return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

int32_t clamp_int(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, INT_MIN, INT_MAX)); }

Entry decode_entry(const CollectiveEntry& raw, const format::RingClock& clock) {
    const OpClass op_class = format::class_of(raw.kind);
    Entry entry;
    entry.sequence = raw.sequence;
    entry.count = raw.count;
    entry.stream = raw.stream;
    entry.entered_ns = clock.realtime_ns(raw.entered_ticks);
    entry.returned_ns = clock.realtime_ns(raw.returned_ticks);
    entry.started_ns = clock.realtime_ns(raw.gpu_started_ticks);
    entry.finished_ns = clock.realtime_ns(raw.gpu_finished_ticks);
    entry.group = static_cast<uint32_t>(raw.group);
    entry.thread = raw.thread;
    entry.step = raw.step < 0 ? -1 : clamp_int(raw.step);
    const bool has_peer = op_class == OpClass::rooted || op_class == OpClass::p2p || raw.kind == OpKind::kWaitSignal;
    entry.peer = has_peer ? raw.peer : -1;
    entry.result = raw.result;
    entry.kind = raw.kind;
    entry.datatype = raw.datatype;
    entry.reduction = reduces(raw.kind) ? raw.reduction : Reduction::kNoReduction;
    entry.state = raw.state;
    entry.captured = (raw.flags & format::kCaptured) != 0 || raw.state == CallState::kCaptured;
    entry.graph = raw.graph;
    entry.replay = (raw.flags & format::kReplayed) == 0 ? 0 : static_cast<uint32_t>(raw.replay);
    return entry;
}

// A living communicator without counters has sent and received nothing, unless a call found no room for them. It gets
// them with its first call: where all are 0, they were in a part of the file that is missing.
void decode_counters(const format::RingImage& image, const CommunicatorRecord& record, Member& member) {
    const bool none_uncounted = image.header().losses[static_cast<size_t>(format::Loss::kP2pUncounted)] == 0;
    const bool has_table = image.for_each_peer(record, [&](int32_t peer, uint64_t sent, uint64_t received) {
        if (sent != 0) {
            member.sent.emplace_back(peer, sent);
        }
        if (received != 0) {
            member.received.emplace_back(peer, received);
        }
    });
    member.p2p_counted =
        has_table ? !member.sent.empty() || !member.received.empty() : none_uncounted && record.closed_ticks == 0;
}

Member decode_member(const format::RingImage& image, const CommunicatorRecord& record, TextTable& texts) {
    const format::RingClock& clock = image.clock();
    Member member;
    member.id = record.id;
    member.parent_id = record.parent_id;
    member.alias_id = record.alias_id;
    member.issued = record.next_sequence;
    member.finished = std::min(record.finished, record.next_sequence);
    member.created_ns = clock.realtime_ns(record.created_ticks);
    member.ready_ns = clock.realtime_ns(record.ready_ticks);
    member.closed_ns = clock.realtime_ns(record.closed_ticks);
    member.ordinal = record.ordinal;
    member.name = texts.use(record.name);
    member.create_thread = record.create_thread;
    member.size = record.size;
    member.rank = record.rank;
    member.device = record.device;
    member.color = record.color;
    member.key = record.key;
    member.parent_rank = record.parent_rank;
    member.create_result = record.create_result;
    member.async_error = record.async_error;
    member.origin = record.origin;
    member.state = record.state;
    member.identity_guessed = (record.flags & format::kCommIdentityGuessed) != 0;
    decode_counters(image, record, member);
    return member;
}

ThreadState decode_thread(const ThreadRecord& raw, const format::RingClock& clock, TextTable& texts) {
    ThreadState thread;
    thread.thread = raw.thread;
    thread.call = texts.use(raw.call);
    thread.last_call = texts.use(raw.last_call);
    thread.entered_ns = clock.realtime_ns(raw.entered_ticks);
    thread.last_call_ns = clock.realtime_ns(raw.last_call_ticks);
    thread.object = raw.object;
    thread.ticket = raw.ticket;
    thread.group = raw.group;
    thread.group_depth = raw.group_depth;
    thread.launches = raw.launches;
    thread.queries = raw.queries;
    for (uint32_t depth = 0; depth < std::min(raw.span_depth, format::kSpanDepth); ++depth) {
        thread.spans.push_back(texts.use(raw.spans[depth]));
    }
    return thread;
}

void decode_header(const format::RingHeader& header, Process& process) {
    process.pid = header.pid;
    process.pid_start_ticks = header.pid_start_ticks;
    process.rank = plausible_rank(header.rank);
    process.world_size = plausible_rank(header.world_size);
    process.attempt = header.attempt;
    process.run = printable(format::fixed_text(header.run));
    process.host = printable(format::fixed_text(header.host));
    process.boot_id = printable(format::fixed_text(header.boot_id));
    process.fatal_signal = header.fatal_signal;
    process.fatal_thread = header.fatal_thread;
    process.step = header.step;
    process.timeout_ns = header.timeout_ns;
    process.gpu_progress = header.gpu_progress != format::GpuProgressMethod::kOff;
    process.gpu_method = header.gpu_progress;
    process.gpu_sample = std::max(header.gpu_progress_sample, 1U);
    process.observing = {header.gpu_budget, header.gpu_full_of, header.gpu_light_of, header.gpu_unit_launches,
                         static_cast<int64_t>(std::min<uint64_t>(header.gpu_unit_ns, INT64_MAX))};
    std::copy_n(header.losses, format::kLossCount, process.losses);
}

Ending decode_ending(const OpenedSource& opened) {
    const format::RingHeader& header = opened.image.header();
    const format::RingClock& clock = opened.image.clock();
    Ending ending;
    ending.seen_ns = clock.realtime_ns(opened.seen_ticks != 0 ? opened.seen_ticks : newest_tick(opened.image));
    ending.asked_ns = header.end_signal > 0 ? clock.realtime_ns(header.end_ticks) : 0;
    ending.signal = ending.asked() ? header.end_signal : 0;
    ending.sender = ending.asked() ? std::max(header.end_sender, 0) : 0;
    if (header.state == format::ProcessState::kExited) {
        ending.left_ns = clock.realtime_ns(header.exit_ticks);
        ending.exit_status =
            header.exit_status_next > 0 && header.exit_status_next <= 256 ? header.exit_status_next - 1 : -1;
    }
    ending.halt = opened.halt;
    return ending;
}

void decode_entries(const format::RingImage& image, const std::unordered_map<uint32_t, uint32_t>& row_of,
                    TextTable& texts, Symbols* symbols, Process& process) {
    std::vector<uint64_t> tickets;
    CallSites sites(image, symbols);
    std::unordered_map<uint64_t, uint32_t> row_of_id;
    for (uint32_t row = 0; row < process.members.size(); ++row) {
        row_of_id.emplace(process.members[row].id, row);
    }
    const uint64_t head = std::min<uint64_t>(image.collective_capacity(), 1 << 20);
    process.entries.reserve(std::min<uint64_t>(head, 2048));
    const auto losses = image.for_each_collective([&](uint64_t ticket, const CollectiveEntry& raw) {
        Entry entry = decode_entry(raw, image.clock());
        entry.span = texts.use(raw.span);
        entry.site = raw.stack == 0 ? 0 : texts.add(sites.way(raw.stack));
        entry.device = device_state(raw, image);
        if (raw.channels != 0 && entry.device != DeviceState::kFinished) {
            process.channel_counts.push_back({static_cast<uint32_t>(process.entries.size()), raw.channels,
                                              raw.channels_started, raw.channels_finished, raw.algorithm,
                                              raw.protocol});
        }
        if (const auto row = row_of.find(raw.communicator); row != row_of.end()) {
            entry.row = row->second;
        } else if (const auto by_id = row_of_id.find(raw.communicator_id); by_id != row_of_id.end()) {
            entry.row = by_id->second;
        }
        tickets.push_back(ticket);
        process.entries.push_back(entry);
    });
    process.overwritten = losses.overwritten;
    process.torn = losses.torn;
    process.first_ticket = tickets.empty() ? 0 : tickets.front();
    const bool dense = tickets.empty() || tickets.back() - tickets.front() + 1 == tickets.size();
    if (!dense) {
        process.tickets = std::move(tickets);
    }
    process.entries.shrink_to_fit();
}

// A program may label itself again and again: the newest value of each key, of a bounded number of keys.
class LabelDecoder {
  public:
    LabelDecoder(TextTable& texts, Process& process) : texts_(texts), process_(process) {}

    void set(uint32_t key_id, uint32_t text_id) {
        constexpr size_t kMaxLabels = 256;
        const uint32_t key = texts_.use(key_id);
        const auto known = std::find_if(process_.labels.begin(), process_.labels.end(),
                                        [&](const auto& label) { return label.first == key; });
        if (known != process_.labels.end()) {
            known->second = texts_.use(text_id);
        } else if (process_.labels.size() < kMaxLabels) {
            process_.labels.emplace_back(key, texts_.use(text_id));
        }
    }

  private:
    TextTable& texts_;
    Process& process_;
};

// Markers tell those that found no room in the table.
void decode_labels(const format::RingImage& image, TextTable& texts, Process& process) {
    LabelDecoder labels(texts, process);
    image.for_each_marker([&](uint64_t, const format::MarkerEntry& marker) {
        if (marker.kind == format::MarkerKind::kLabel) {
            labels.set(marker.name, marker.text);
        }
    });
    for (const format::LabelRecord& label : image.labels()) {
        labels.set(static_cast<uint32_t>(label.key), label.text);
    }
}

// The newest reading of each name.
void decode_health(const format::RingImage& image, TextTable& texts, Process& process) {
    constexpr size_t kMostReadings = 512;
    std::unordered_map<uint32_t, size_t> rows;
    image.for_each_health([&](uint64_t, const format::HealthEntry& entry) {
        const auto [row, is_new] = rows.try_emplace(entry.name, process.health.size());
        if (is_new && process.health.size() == kMostReadings) {
            rows.erase(row);
            return;
        }
        if (is_new) {
            process.health.emplace_back();
        }
        process.health[row->second] = {texts.use(entry.name),
                                       plausible_reading(entry.value),
                                       plausible_reading(entry.first_value),
                                       entry.since_step,
                                       image.clock().realtime_ns(entry.since_ticks),
                                       image.clock().realtime_ns(entry.ticks)};
    });
}

void decode_sums(const OpenedSource& opened, TextTable& texts, Process& process) {
    const format::RingClock& clock = opened.image.clock();
    process.summed_calls.reserve(opened.step_calls.size());
    for (const format::StepCalls& sum : opened.step_calls) {
        const auto name = opened.communicator_names.find(sum.communicator_id);
        SummedCalls& calls = process.summed_calls.emplace_back();
        calls.communicator_id = sum.communicator_id;
        calls.step = sum.step;
        calls.gpu_ns = clock.span_ns(0, sum.device_ticks);
        calls.entered_ns = clock.realtime_ns(sum.entered_ticks());
        calls.calls = sum.calls;
        calls.timed = std::min(sum.timed_calls, sum.calls);
        calls.name = name == opened.communicator_names.end() ? 0 : texts.add(printable(name->second));
        calls.kind = sum.kind;
    }
}

// --- Threads that ask the GPU again and again instead of blocking.

// A host that polls cudaEventQuery or cudaStreamQuery waits as one does that blocks in a synchronisation: from here on
// its thread is inside the query, since its newest call of NCCL. An allocator asks once in a while; a thread that waits
// asks in a row, until the end of its record. `process` has the image's threads and entries.
void take_polling_for_waiting(const format::RingImage& image, Process& process) {
    constexpr uint32_t kLeastPolls = 3;
    constexpr int64_t kStillPollsNs = 2'000'000'000;
    size_t index = 0;
    for (const format::ThreadRecord& record : image.threads()) {
        ThreadState& thread = process.threads[index++];
        const bool polls = thread.call == 0 && record.polls >= kLeastPolls && thread.last_call_ns != 0 &&
                           process.now_ns - thread.last_call_ns < kStillPollsNs;
        if (!polls) {
            continue;
        }
        thread.call = thread.last_call;
        thread.entered_ns = 0;
        thread.ticket = 0;
        for (const Entry& entry : process.entries) {
            thread.entered_ns =
                entry.thread == thread.thread ? std::max(thread.entered_ns, entry.entered_ns) : thread.entered_ns;
        }
        thread.entered_ns = thread.entered_ns == 0 ? thread.last_call_ns : thread.entered_ns;
    }
}

// --- Libraries that move data between GPUs without NCCL's host calls: a hang in them shows only as a kernel that does
// not end.

struct UnrecordedLibrary {
    std::string_view file;  // start of its file's name
    std::string_view name;
};

// NVSHMEM's modules, which its initialization opens: its library alone says nothing, because PyTorch's wheels bring and
// load it. torchcomms' extension with NCCLX linked into it, MSCCL++.
constexpr auto kUnrecordedLibraries = std::to_array<UnrecordedLibrary>({
    {"nvshmem_bootstrap_", "NVSHMEM"},
    {"nvshmem_transport_", "NVSHMEM"},
    {"_comms_ncclx", "NCCLX"},
    {"libmscclpp", "MSCCL++"},
});

void add_unrecorded(std::string_view path, std::vector<std::string>& found) {
    const std::string file = std::filesystem::path(path).filename().string();
    for (const UnrecordedLibrary& library : kUnrecordedLibraries) {
        const bool told = std::any_of(found.begin(), found.end(),
                                      [&](const std::string& text) { return text.starts_with(library.name); });
        if (file.starts_with(library.file) && !told) {
            found.push_back(fmt::format("{} ({})", library.name, printable(file)));
        }
    }
}

// Looks in the list of modules, if the dump has stacks or the ring has call sites, and in the recorded calls.
std::vector<std::string> find_unrecorded(const OpenedSource& opened, const Process& process) {
    std::vector<std::string> found;
    if (const auto stacks = format::StacksImage::open(opened.stacks)) {
        for (const format::StackModule& module : stacks->modules()) {
            add_unrecorded(stacks->text(module.path), found);
        }
    }
    const format::CallSitesImage sites(opened.image.call_sites());
    for (const format::StackModule& module : sites.modules()) {
        add_unrecorded(sites.text(module.path), found);
    }
    if (std::any_of(process.entries.begin(), process.entries.end(),
                    [](const Entry& entry) { return entry.kind == OpKind::kDevCommCreate; })) {
        found.emplace_back("operations that kernels start themselves (ncclDevCommCreate)");
    }
    return found;
}

}  // namespace

Process decode_process(const OpenedSource& opened, Symbols* symbols) {
    const format::RingImage& image = opened.image;
    Process process;
    process.source = opened.source;
    process.liveness = opened.liveness;
    process.partial_recording = opened.partial_recording;
    decode_header(image.header(), process);
    process.now_ns = image.clock().realtime_ns(opened.now_ticks);
    process.ending = decode_ending(opened);
    process.processors = opened.processors;
    process.started_ns = image.clock().realtime_ns(image.header().first_anchor.ticks);
    TextTable texts(image, process.texts);
    std::unordered_map<uint32_t, uint32_t> row_of;
    for (const auto& [row, record] : image.communicators()) {
        row_of.emplace(row, static_cast<uint32_t>(process.members.size()));
        process.members.push_back(decode_member(image, record, texts));
    }
    if (opened.extent == format::DumpExtent::kFrame) {
        decode_labels(image, texts, process);
        process.condensed = true;
        return process;
    }
    for (const ThreadRecord& record : image.threads()) {
        process.threads.push_back(decode_thread(record, image.clock(), texts));
    }
    decode_entries(image, row_of, texts, symbols, process);
    take_polling_for_waiting(image, process);
    undo_ends_by_abort(image, process);
    complete_device_states(process);
    index_calls(process);
    decode_stream_work(opened, texts, process);
    decode_channels(image, process);
    decode_labels(image, texts, process);
    decode_timing(image, texts, process);
    decode_metrics(image, texts, symbols, process);
    decode_health(image, texts, process);
    decode_sums(opened, texts, process);
    process.unrecorded = find_unrecorded(opened, process);
    decode_config(opened, process);
    decode_children(opened, process);
    return process;
}

}  // namespace titan::analyzer
