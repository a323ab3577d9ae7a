#include "ring_builder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "formats/container/dump_builder.h"
#include "host/json_value.h"

namespace titan::synth {

using namespace titan;
using namespace titan::format;

namespace {

template <size_t N>
void set_text(char (&field)[N], const std::string& text) {
    std::memset(field, 0, N);
    std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

uint64_t align(uint64_t value) { return (value + 63) / 64 * 64; }

}  // namespace

RingBuilder::RingBuilder(const RingSpec& spec) : spec_(spec) {
    const RegionDescriptor wanted[] = {
        {RegionKind::kCollectives, sizeof(CollectiveEntry), 0, spec.collectives, 0},
        {RegionKind::kCudaCalls, sizeof(CudaCallEntry), 0, spec.cuda_calls, 0},
        {RegionKind::kMarkers, sizeof(MarkerEntry), 0, spec.markers, 0},
        {RegionKind::kCommunicators, sizeof(CommunicatorRecord), 0, spec.communicators, 0},
        {RegionKind::kThreads, sizeof(ThreadRecord), 0, spec.threads, 0},
        {RegionKind::kStringIndex, sizeof(StringRecord), 0, spec.texts, 0},
        {RegionKind::kStringHeap, 1, 0, spec.heap_bytes, 0},
        {RegionKind::kP2pCounters, 1, 0, spec.p2p_bytes, 0},
        {RegionKind::kStreamWork, sizeof(StreamWorkEntry), 0, spec.stream_work, 0},
        {RegionKind::kLaunchMarks, sizeof(LaunchMarks), 0, spec.launch_marks, 0},
        {RegionKind::kChannels, sizeof(ChannelEntry), 0, spec.channels, 0},
    };
    uint64_t offset = kHeaderBytes;
    std::vector<RegionDescriptor> regions(std::begin(wanted), std::end(wanted));
    for (RegionDescriptor& region : regions) {
        region.offset_bytes = offset;
        offset = align(offset + region.count * region.stride_bytes);
    }
    const RegionDescriptor health{RegionKind::kHealth, sizeof(HealthEntry), offset, spec.readings, 0};
    offset = align(offset + health.count * health.stride_bytes);
    const RegionDescriptor spans{RegionKind::kOpenSpans, sizeof(OpenSpanRecord), offset, spec.open_spans, 0};
    offset = align(offset + spans.count * spans.stride_bytes);
    bytes_.resize(offset);
    RingHeader& h = header();
    h.magic = kRingMagic;
    h.major = kRingMajor;
    h.minor = kRingMinor;
    h.endian_tag = kEndianTag;
    h.header_bytes = kHeaderBytes;
    h.region_count = static_cast<uint32_t>(regions.size());
    h.file_bytes = offset;
    set_text(h.writer, "titan-synth");
    h.pid = spec.pid;
    h.pid_start_ticks = spec.pid_start_ticks;
    h.rank = spec.rank;
    h.world_size = spec.world_size;
    h.local_rank = spec.rank;
    h.attempt = spec.attempt;
    set_text(h.host, spec.host);
    set_text(h.boot_id, spec.boot_id);
    set_text(h.run, spec.run);
    set_text(h.executable, "synthetic");
    h.clock_source = ClockSource::kMonotonic;
    h.ticks_per_second = kSecond;
    h.first_anchor = {2, kEpochTicks, kEpochTicks, kEpochRealtimeNs};
    h.last_anchor = h.first_anchor;
    h.heartbeat_ticks = kEpochTicks;
    h.state = ProcessState::kRunning;
    h.step = kNoStep;
    h.gpu_progress = format::GpuProgressMethod::kEvents;
    std::copy(regions.begin(), regions.end(), h.regions);
    h.more_regions[0] = health;
    h.more_regions[1] = spans;
}

template <typename T>
T* RingBuilder::slot(const RegionDescriptor& region, uint64_t number) {
    return at<T>(region.offset_bytes + (number % region.count) * region.stride_bytes);
}

uint32_t RingBuilder::text(std::string_view text) {
    if (text.empty()) {
        return 0;
    }
    const uint64_t hash = std::hash<std::string_view>{}(text) | 1;
    for (uint64_t i = 0; i < head(kTexts); ++i) {
        const auto* record = slot<StringRecord>(kTexts, i);
        const char* stored = at<char>(header().regions[kHeap].offset_bytes + record->offset_bytes);
        if (record->hash == hash && std::string_view(stored, record->length_bytes - 1) == text) {
            return static_cast<uint32_t>(i + 1);
        }
    }
    if (head(kTexts) >= spec_.texts || head(kHeap) + text.size() > spec_.heap_bytes) {
        throw std::runtime_error("synthetic ring: too many texts");
    }
    std::memcpy(at<char>(header().regions[kHeap].offset_bytes + head(kHeap)), text.data(), text.size());
    *slot<StringRecord>(kTexts, head(kTexts)) = {hash, static_cast<uint32_t>(head(kHeap)),
                                                 static_cast<uint32_t>(text.size() + 1)};
    head(kHeap) += text.size();
    return static_cast<uint32_t>(++head(kTexts));
}

uint32_t RingBuilder::add_communicator(uint64_t id, int size, int rank, std::string_view name) {
    const uint64_t row = head(kComms)++;
    if (row >= spec_.communicators) {
        throw std::runtime_error("synthetic ring: more communicators than RingSpec::communicators, " +
                                 std::to_string(spec_.communicators));
    }
    auto* record = slot<CommunicatorRecord>(kComms, row);
    record->origin = OpKind::kCommInit;
    record->state = CommState::kLive;
    record->id = id;
    record->pointer = 0x7000'0000 + row * 4096;
    record->created_ticks = kEpochTicks;
    record->ready_ticks = kEpochTicks + 1000;
    record->size = size;
    record->rank = rank;
    record->device = 0;
    record->parent_rank = -1;
    record->name = text(name);
    record->create_thread = static_cast<uint32_t>(spec_.pid);
    record->p2p_offset_bytes = kNoSequence;
    record->published = 1;
    return static_cast<uint32_t>(row);
}

CommunicatorRecord& RingBuilder::communicator(uint32_t row) { return *slot<CommunicatorRecord>(kComms, row); }

// Counters are made with the first call, as the recorder does.
void RingBuilder::count_p2p(uint32_t row, bool send, int peer) {
    CommunicatorRecord& record = communicator(row);
    const uint64_t counter_bytes = 16 * static_cast<uint64_t>(std::max(record.size, 0));
    if (record.p2p_offset_bytes == kNoSequence && head(kPeers) + counter_bytes <= spec_.p2p_bytes) {
        record.p2p_offset_bytes = head(kPeers);
        head(kPeers) += counter_bytes;
    }
    if (record.p2p_offset_bytes == kNoSequence) {
        ++header().losses[static_cast<size_t>(format::Loss::kP2pUncounted)];
        return;
    }
    const uint64_t index = static_cast<uint64_t>(peer) + (send ? 0 : static_cast<uint64_t>(record.size));
    ++*at<uint64_t>(header().regions[kPeers].offset_bytes + record.p2p_offset_bytes + index * 8);
}

CollectiveEntry& RingBuilder::add_call(uint32_t communicator_row, OpKind kind) {
    const uint64_t ticket = head(kCalls)++;
    auto* entry = slot<CollectiveEntry>(kCalls, ticket);
    const CommunicatorRecord& record = communicator(communicator_row);
    *entry = CollectiveEntry{};
    entry->slot_sequence = 2 * ticket + 2;
    entry->communicator_id = record.id;
    entry->communicator = communicator_row;
    entry->comm_rank = record.rank;
    entry->sequence = record.next_sequence;
    entry->kind = kind;
    entry->datatype = Datatype::kNoDatatype;
    entry->reduction = Reduction::kNoReduction;
    entry->peer = -1;
    entry->step = header().step;
    entry->thread = static_cast<uint32_t>(spec_.pid);
    entry->stream = 0x51;
    entry->state = CallState::kFinished;
    return *entry;
}

CollectiveEntry& RingBuilder::call(uint64_t ticket) { return *slot<CollectiveEntry>(kCalls, ticket); }

uint64_t RingBuilder::next_ticket() const { return const_cast<RingBuilder*>(this)->head(kCalls); }

ThreadRecord& RingBuilder::add_thread(uint32_t thread) {
    auto* record = slot<ThreadRecord>(kThreads, head(kThreads)++);
    *record = ThreadRecord{};
    record->thread = thread;
    return *record;
}

MarkerEntry& RingBuilder::add_marker(MarkerKind kind) {
    const uint64_t ticket = head(kMarks)++;
    auto* entry = slot<MarkerEntry>(kMarks, ticket);
    *entry = MarkerEntry{};
    entry->slot_sequence = 2 * ticket + 2;
    entry->kind = kind;
    return *entry;
}

StreamWorkEntry& RingBuilder::add_work(WorkKind kind, uint64_t stream) {
    const uint64_t ticket = head(kWork)++;
    auto* entry = slot<StreamWorkEntry>(kWork, ticket);
    *entry = StreamWorkEntry{};
    entry->slot_sequence = 2 * ticket + 2;
    entry->kind = kind;
    entry->stream = stream;
    entry->thread = static_cast<uint32_t>(spec_.pid);
    return *entry;
}

ChannelEntry& RingBuilder::add_channel(uint64_t collective_ticket, ChannelRole role) {
    const uint64_t ticket = head(kChannels)++;
    auto* entry = slot<ChannelEntry>(kChannels, ticket);
    *entry = ChannelEntry{};
    entry->slot_sequence = 2 * ticket + 2;
    entry->collective = collective_ticket + 1;
    entry->role = role;
    entry->peer = -1;
    return *entry;
}

HealthEntry& RingBuilder::add_reading(std::string_view name, double value, double first_value, uint64_t ticks) {
    const uint64_t ticket = header().health_cursor.head++;
    const uint32_t id = text(name);
    auto& entry = *slot<HealthEntry>(header().more_regions[0], ticket);
    entry = {2 * ticket + 2, ticks, ticks, kNoStep, value, first_value, id, 0};
    return entry;
}

OpenSpanRecord& RingBuilder::add_open_span(std::string_view name, uint32_t thread, uint64_t begin_ticks) {
    uint32_t id = 1;
    while (slot<OpenSpanRecord>(header().more_regions[1], id)->id != 0) {
        ++id;
    }
    const uint32_t name_id = text(name);
    auto& record = *slot<OpenSpanRecord>(header().more_regions[1], id);
    record = {id, 1, begin_ticks, 0, name_id, 0, thread, 0};
    return record;
}

CudaCallEntry& RingBuilder::add_cuda_call(std::string_view name) {
    const uint64_t ticket = head(kCuda)++;
    auto* entry = slot<CudaCallEntry>(kCuda, ticket);
    *entry = CudaCallEntry{};
    entry->slot_sequence = 2 * ticket + 2;
    entry->name = text(name);
    entry->thread = static_cast<uint32_t>(spec_.pid);
    entry->step = header().step;
    return *entry;
}

LaunchMarks& RingBuilder::marks(uint64_t launch) { return *slot<LaunchMarks>(kLaunches, launch - 1); }

std::string dump_meta(uint64_t now_ticks, std::string_view reason, bool process_alive, uint64_t dump_number,
                      std::string_view nccl_algo) {
    const Json environment = nccl_algo.empty() ? Json::object() : Json{{"NCCL_ALGO", nccl_algo}};
    const Json meta{{"schema", 1},
                    {"dump", dump_number},
                    {"reason", reason},
                    {"detail", "synthetic"},
                    {"requested_by_rank", -1},
                    {"realtime_ns", kEpochRealtimeNs + (now_ticks - kEpochTicks)},
                    {"ticks", now_ticks},
                    {"saved_by_rank", -1},
                    {"process_alive", process_alive},
                    {"environment", environment}};
    return meta.dump();
}

std::vector<std::byte> make_dump(const RingBuilder& ring, std::string_view meta_json) {
    auto dump = build_dump(ring.bytes(), meta_json);
    if (!dump) {
        throw std::runtime_error(dump.error().text());
    }
    return std::move(*dump);
}

void write_file(const std::string& path, const std::vector<std::byte>& bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file) {
        throw std::runtime_error("cannot write " + path);
    }
}

}  // namespace titan::synth
