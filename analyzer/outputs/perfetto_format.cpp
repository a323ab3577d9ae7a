#include "perfetto_format.h"

#include <protozero/pbf_writer.hpp>
#include <utility>

namespace titan::analyzer {
namespace {

using protozero::pbf_writer;

// Fields, by message.
namespace trace {
constexpr uint32_t kPacket = 1;
}
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12,
                   kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr uint32_t kIncrementalStateCleared = 1, kNeedsIncrementalState = 2;  // sequence_flags
}  // namespace packet
namespace descriptor {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrdering = 11, kOrderRank = 12;
constexpr int32_t kExplicit = 3;                       // child_ordering
constexpr uint32_t kProcessPid = 1, kProcessName = 6;  // ProcessDescriptor
}  // namespace descriptor
namespace event {
constexpr uint32_t kDebugAnnotations = 4, kType = 9, kNameIid = 10, kTrackUuid = 11, kDoubleCounterValue = 44,
                   kFlowIds = 47;
constexpr int32_t kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4;                        // type
constexpr uint32_t kNameIidOfAnnotation = 1, kIntValue = 4, kDoubleValue = 5, kStringValueIid = 17;  // DebugAnnotation
}  // namespace event
namespace interned {
constexpr uint32_t kEventNames = 2, kArgumentNames = 3, kTexts = 29;
constexpr uint32_t kIid = 1, kText = 2;
}  // namespace interned
namespace clocks {
constexpr uint32_t kClocks = 1, kClockId = 1, kTimestamp = 2;
constexpr uint32_t kRealtime = 1, kBoottime = 6;
}  // namespace clocks

constexpr uint32_t kOnlySequence = 1;

}  // namespace

PerfettoFormat::PerfettoFormat(Write write) : write_(std::move(write)) {
    pbf_writer(packet_).add_uint32(packet::kSequenceFlags, packet::kIncrementalStateCleared);
    write_packet();
}

void PerfettoFormat::process(uint64_t id, std::string_view name) {
    message_.clear();
    pbf_writer track(message_);
    track.add_uint64(descriptor::kUuid, id);
    {
        pbf_writer process(track, descriptor::kProcess);
        process.add_int32(descriptor::kProcessPid, static_cast<int32_t>(id));
        process.add_string(descriptor::kProcessName, name.data(), name.size());
    }
    track.add_enum(descriptor::kChildOrdering, descriptor::kExplicit);
    pbf_writer(packet_).add_message(packet::kTrackDescriptor, message_);
    write_packet();
}

void PerfettoFormat::track(const TraceTrack& track) {
    message_.clear();
    pbf_writer out(message_);
    out.add_uint64(descriptor::kUuid, track.id);
    out.add_uint64(descriptor::kParent, track.process);
    out.add_string(descriptor::kName, track.name.data(), track.name.size());
    out.add_int32(descriptor::kOrderRank, track.order);
    if (track.counter) {
        out.add_message(descriptor::kCounter, std::string());
    }
    pbf_writer(packet_).add_message(packet::kTrackDescriptor, message_);
    write_packet();
}

uint64_t PerfettoFormat::number_of(Interned& interned, uint32_t field, std::string_view text) {
    if (const auto known = interned.find(text); known != interned.end()) {
        return known->second;
    }
    const uint64_t number = interned.size() + 1;
    interned.emplace(text, number);
    {
        pbf_writer out(packet_);
        pbf_writer data(out, packet::kInternedData);
        pbf_writer entry(data, field);
        entry.add_uint64(interned::kIid, number);
        entry.add_string(interned::kText, text.data(), text.size());
    }
    write_packet();
    return number;
}

void PerfettoFormat::encode(const TraceDetails& details, std::string& into) {
    pbf_writer out(into);
    out.add_uint64(event::kNameIid, number_of(names_, interned::kEventNames, details.name));
    for (const TraceArgument& argument : details.arguments) {
        const uint64_t name = number_of(argument_names_, interned::kArgumentNames, argument.name);
        const auto* text = std::get_if<std::string_view>(&argument.value);
        const uint64_t number = text == nullptr ? 0 : number_of(texts_, interned::kTexts, *text);
        pbf_writer annotation(out, event::kDebugAnnotations);
        annotation.add_uint64(event::kNameIidOfAnnotation, name);
        if (text != nullptr) {
            annotation.add_uint64(event::kStringValueIid, number);
        } else if (const auto* whole = std::get_if<int64_t>(&argument.value)) {
            annotation.add_int64(event::kIntValue, *whole);
        } else {
            annotation.add_double(event::kDoubleValue, std::get<double>(argument.value));
        }
    }
    if (details.flow != 0) {
        out.add_fixed64(event::kFlowIds, details.flow);
    }
}

void PerfettoFormat::begin(const TraceTrack& track, int64_t at_ns, std::string_view encoded) {
    event(track, at_ns, event::kSliceBegin, encoded);
}

void PerfettoFormat::end(const TraceTrack& track, int64_t at_ns) { event(track, at_ns, event::kSliceEnd, {}); }

void PerfettoFormat::instant(const TraceTrack& track, int64_t at_ns, std::string_view encoded) {
    event(track, at_ns, event::kInstant, encoded);
}

void PerfettoFormat::value(const TraceTrack& track, int64_t at_ns, double value) {
    inner_.clear();
    pbf_writer(inner_).add_double(event::kDoubleCounterValue, value);
    event(track, at_ns, event::kCounter, inner_);
}

// Times are of the boot time clock for Perfetto, whose zero is set to 1970: it then knows the date of all.
void PerfettoFormat::event(const TraceTrack& track, int64_t at_ns, int32_t type, std::string_view encoded) {
    if (!std::exchange(clock_written_, true)) {
        {
            pbf_writer out(packet_);
            pbf_writer snapshot(out, packet::kClockSnapshot);
            for (const uint32_t clock : {clocks::kBoottime, clocks::kRealtime}) {
                pbf_writer reading(snapshot, clocks::kClocks);
                reading.add_uint32(clocks::kClockId, clock);
                reading.add_uint64(clocks::kTimestamp, static_cast<uint64_t>(at_ns));
            }
        }
        write_packet();
    }
    message_.clear();
    pbf_writer out(message_);
    out.add_enum(event::kType, type);
    out.add_uint64(event::kTrackUuid, track.id);
    message_.append(encoded);
    pbf_writer packet(packet_);
    packet.add_uint64(packet::kTimestamp, static_cast<uint64_t>(at_ns));
    packet.add_message(packet::kTrackEvent, message_);
    packet.add_uint32(packet::kSequenceFlags, packet::kNeedsIncrementalState);
    write_packet();
}

void PerfettoFormat::write_packet() {
    pbf_writer(packet_).add_uint32(packet::kSequence, kOnlySequence);
    framed_.clear();
    pbf_writer(framed_).add_message(trace::kPacket, packet_);
    packet_.clear();
    write_(framed_);
}

}  // namespace titan::analyzer
