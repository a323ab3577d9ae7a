#include "open_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "dump_meta.h"
#include "formats/container/dump_reader.h"
#include "formats/ring/ring_process.h"
#include "formats/ring/stacks_image.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "record_archive.h"
#include "rings.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

using format::DumpReason;
using format::RingImage;

// A process that is stopped is dumped from outside, and what the system told of its threads is there. Dumps say it
// themselves since their meta section has "halt".
Halt halt_by_stacks(std::span<const std::byte> stacks, int32_t pid) {
    const auto image = format::StacksImage::open(stacks);
    if (!image) {
        return Halt::kNone;
    }
    for (const format::StackThread& thread : image->threads()) {
        if (thread.tid == pid && thread.outcome != format::StackOutcome::kUnwound) {
            return halt_of(thread.state, image->text(thread.wait_channel));
        }
    }
    return Halt::kNone;
}

// A dump whose moment only its calls tell is read as a whole.
Result<OpenedSource> from_dump(std::span<const std::byte> file, ImageBuffer& memory, OpenedSource opened,
                               format::DumpExtent extent = format::DumpExtent::kAll) {
    Result<format::Dump> dump = format::read_dump(file, memory, extent);
    if (!dump) {
        return dump.error();
    }
    Result<RingImage> image = RingImage::open(memory.bytes());
    if (!image) {
        return dump->problems.empty() ? image.error() : image.error().within(dump->problems.front());
    }
    opened.image = *image;
    opened.problems = std::move(dump->problems);
    opened.stacks = std::move(dump->stacks);
    const std::optional<DumpMeta> meta = parse_dump_meta(dump->meta_json);
    const bool is_frame = extent == format::DumpExtent::kFrame;
    if (is_frame && (!meta || !meta->process_alive || meta->ticks == 0)) {
        return from_dump(file, memory, std::move(opened));
    }
    opened.extent = extent;
    if (!meta) {
        opened.problems.emplace_back("its meta section is lost: the reason and the time of the dump are unknown");
        opened.now_ticks = newest_tick(*image);
        return opened;
    }
    opened.source.dump_number = meta->dump_number;
    opened.source.reason = meta->reason;
    opened.source.detail = meta->detail;
    opened.partial_recording = meta->partial_recording;
    opened.launch_sample = meta->launch_sample;
    opened.processors = meta->processors;
    opened.environment = meta->environment;
    opened.children = meta->children;
    opened.out_of_memory_kills = meta->out_of_memory_kills;
    opened.machine = meta->machine;
    opened.seen_ticks = is_frame ? meta->ticks : 0;
    opened.now_ticks = !meta->process_alive     ? newest_tick(*image)  // the process that saved it came later
                       : meta->ticks != 0       ? meta->ticks
                       : meta->realtime_ns != 0 ? image->clock().ticks_at_realtime(meta->realtime_ns)
                                                : newest_tick(*image);
    const format::RingHeader& header = image->header();
    if (!meta->process_alive) {
        opened.liveness = dead_how(header);
    } else if (header.state == format::ProcessState::kCrashed ||
               (meta->reason == DumpReason::kCrash && header.fatal_signal != 0)) {
        // The reason alone does not tell: a rank that saw another one die dumps for that reason, too.
        opened.liveness = Liveness::kCrashed;
    } else if (meta->reason == DumpReason::kExit || header.state == format::ProcessState::kExited) {
        opened.liveness = Liveness::kExited;
    } else if (meta->reason == DumpReason::kEnd) {
        opened.liveness = Liveness::kEnded;
    } else {
        opened.liveness = Liveness::kAlive;
        opened.halt = meta->halt != Halt::kNone ? meta->halt : halt_by_stacks(opened.stacks, header.pid);
    }
    return opened;
}

// `heads`: the cursors once more, after the copy.
Result<OpenedSource> from_ring(const ImageBuffer& memory, const std::optional<format::RegionHeads>& heads,
                               OpenedSource opened) {
    Result<RingImage> image = RingImage::open(memory.bytes(), heads);
    if (!image) {
        return image.error();
    }
    opened.image = *image;
    opened.source.is_ring = true;
    const format::RingHeader& header = image->header();
    opened.seen_ticks = newest_tick(*image);
    const Presence presence = format::presence_of(header);
    if (is_alive(presence)) {
        opened.liveness = header.state == format::ProcessState::kExited ? Liveness::kExited : Liveness::kAlive;
        opened.halt = presence == Presence::kStopped ? halt_of_process(header.pid) : Halt::kNone;
        opened.now_ticks = image->clock().ticks_now();
    } else {
        opened.liveness = is_gone(presence) || header.state == format::ProcessState::kExited ||
                                  header.state == format::ProcessState::kCrashed
                              ? dead_how(header)
                              : Liveness::kUnknown;
        opened.now_ticks = opened.seen_ticks;
    }
    return opened;
}

}  // namespace

uint64_t newest_tick(const format::RingImage& image) {
    const format::RingHeader& header = image.header();
    uint64_t newest = std::max(
        {header.heartbeat_ticks, header.last_anchor.ticks, header.step_ticks, header.end_ticks, header.exit_ticks});
    image.for_each_collective([&](uint64_t, const format::CollectiveEntry& entry) {
        newest = std::max({newest, entry.entered_ticks, entry.returned_ticks, entry.gpu_finished_ticks});
    });
    image.for_each_stream_work(
        [&](uint64_t, const format::StreamWorkEntry& entry) { newest = std::max(newest, entry.entered_ticks); });
    for (const format::ThreadRecord& thread : image.threads()) {
        newest = std::max({newest, thread.entered_ticks, thread.last_call_ticks});
    }
    return newest;
}

Result<OpenedSource> open_source(const std::string& path, ImageBuffer& memory) { return SourceFile(path).read(memory); }

const Result<OpenFile>& SourceFile::file() {
    if (!file_) {
        file_ = std::make_unique<Result<OpenFile>>(OpenFile::open(path_));
    }
    return *file_;
}

std::optional<std::string> SourceFile::host() {
    const Result<format::RingHeader> header =
        file() ? format::read_ring_header(*file()) : Result<format::RingHeader>(file().error());
    return header ? std::optional(std::string(format::fixed_text(header->host))) : std::nullopt;
}

DumpMoment SourceFile::moment() {
    if (!file()) {
        return {};
    }
    const auto bytes = file()->read_all();
    const Result<std::string> text = format::read_dump_meta(*bytes);
    const std::optional<DumpMeta> meta = text ? parse_dump_meta(*text) : std::nullopt;
    if (!meta) {
        return {};
    }
    DumpMoment moment{meta->realtime_ns, meta->ticks, {}};
    if (const Result<format::RingHeader> header = format::read_ring_header(*file()); header && moment.ticks != 0) {
        moment.process = std::string(format::fixed_text(header->boot_id)) + ' ' + std::to_string(header->pid) + ' ' +
                         std::to_string(header->pid_start_ticks);
    }
    return moment;
}

Result<OpenedSource> SourceFile::read(ImageBuffer& memory, format::DumpExtent extent) {
    OpenedSource opened;
    opened.source.path = path_;
    opened.source.label = printable(std::filesystem::path(path_).filename().string());
    const std::string label = opened.source.label;
    const Result<OpenFile>& file = this->file();
    if (!file) {
        return file.error().within(label);
    }
    uint64_t magic = 0;
    file->read_at(0, &magic, sizeof(magic));
    if (magic != format::kRingMagic && !path_.ends_with(".ring")) {
        const Result<std::vector<std::byte>> bytes = file->read_all();
        Result<OpenedSource> result = from_dump(*bytes, memory, std::move(opened), extent);
        return result ? std::move(result) : Result<OpenedSource>(result.error().within(label));
    }
    if (magic == 0) {
        return Error(unfinished_ring_text(label)).within(label);
    }
    if (!file->read_into(memory)) {
        return Error("out of memory").within(label);
    }
    // Slots that were written meanwhile may be torn in our copy.
    format::RingHeader later{};
    std::optional<format::RegionHeads> heads;
    if (file->read_at(0, &later, sizeof(later)) == sizeof(later)) {
        heads = format::heads_of(later);
    }
    opened.extent = extent;
    Result<OpenedSource> result = from_ring(memory, heads, std::move(opened));
    return result ? std::move(result) : Result<OpenedSource>(result.error().within(label));
}

Result<OpenedSource> open_source_bytes(Source source, std::span<const std::byte> bytes, ImageBuffer& memory) {
    OpenedSource opened;
    opened.source = std::move(source);
    const std::string label = opened.source.label;
    uint64_t magic = 0;
    std::memcpy(&magic, bytes.data(), std::min(bytes.size(), sizeof(magic)));
    Result<OpenedSource> result = Error("out of memory");
    if (magic != format::kRingMagic && !opened.source.member.ends_with(".ring")) {
        result = from_dump(bytes, memory, std::move(opened));
    } else if (memory.reset(bytes.size())) {
        std::copy(bytes.begin(), bytes.end(), memory.write_at(0, bytes.size()));
        result = from_ring(memory, std::nullopt, std::move(opened));
    }
    return result ? std::move(result) : Result<OpenedSource>(result.error().within(label));
}

Result<OpenedSource> open_source(const Source& source, ImageBuffer& memory) {
    if (source.member.empty()) {
        return open_source(source.path, memory);
    }
    std::vector<std::byte> bytes;
    if (const auto error = read_member(source.path, source.member, bytes, kMaxFileBytes)) {
        return error->within(source.label);
    }
    return open_source_bytes(source, bytes, memory);
}

}  // namespace titan::analyzer
