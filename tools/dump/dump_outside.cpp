#include "dump/dump_outside.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>

#include "formats/layout/dump_name.h"
#include "formats/ring/ring_image.h"
#include "formats/ring/stacks_image.h"
#include "host/words.h"
#include "node/as_user.h"
#include "node/proc.h"
#include "tracer/outside.h"

namespace titan::tools {
namespace {

using format::RingHeader;

constexpr uint32_t kKeepWhereUnknown = 3;

uint64_t realtime_now_ns() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
}

// Slots whose number is another one in a later copy were being written during the first: they are marked as torn.
void mark_torn(std::vector<char>& image, const std::vector<char>& later) {
    RingHeader header;
    std::memcpy(&header, image.data(), sizeof(header));
    format::for_each_region(header, [&](const format::RegionDescriptor& region, const format::RegionCursor*) {
        if (!format::is_ring(region.kind) || region.stride_bytes < sizeof(uint64_t) ||
            region.offset_bytes >= image.size()) {
            return;
        }
        const uint64_t slots = std::min(region.count, (image.size() - region.offset_bytes) / region.stride_bytes);
        for (uint64_t slot = 0; slot < slots; ++slot) {
            char* const place = image.data() + region.offset_bytes + slot * region.stride_bytes;
            uint64_t before = 0;
            uint64_t after = 0;
            std::memcpy(&before, place, sizeof(before));
            std::memcpy(&after, later.data() + (place - image.data()), sizeof(after));
            before |= before == after ? 0 : 1;
            std::memcpy(place, &before, sizeof(before));
        }
    });
}

Result<std::vector<char>> copy_ring(const NodeProcess& process) {
    const Result<OwnedFile> ring = OwnedFile::open(process.directory, process.ring_name, OwnedFile::For::kReading);
    if (!ring) {
        return ring.error();
    }
    if (ring->size_bytes() < sizeof(RingHeader) || ring->size_bytes() > kMaxRingBytes) {
        return Error(fmt::format("{}: {} bytes are not a ring", process.ring_path(), ring->size_bytes()));
    }
    std::vector<char> image(ring->size_bytes());
    if (ring->read_at(0, image.data(), image.size()) != image.size()) {
        return Error(process.ring_path() + ": cut off while it was read");
    }
    if (!process.is_gone()) {
        std::vector<char> later(image.size());
        if (ring->read_at(0, later.data(), later.size()) == later.size()) {
            mark_torn(image, later);
        }
    }
    const auto opened = format::RingImage::open(std::as_bytes(std::span(image)));
    if (!opened) {
        return opened.error().within(process.ring_path());
    }
    if (opened->header().file_bytes > image.size()) {
        return Error(process.ring_path() + ": truncated or damaged");
    }
    if (opened->header().pid != process.header.pid) {
        return Error(process.ring_path() + ": it is another process' by now");
    }
    return image;
}

std::string state_text(char state) {
    switch (state) {
        case 'R': return "running";
        case 'S': return "sleeping";
        case 'D': return "in an uninterruptible wait";
        case 'T': return "stopped";
        case 't': return "stopped by a debugger";
        case 'Z': return "a zombie";
        default: return fmt::format("state {}", std::isprint(static_cast<unsigned char>(state)) != 0 ? state : '?');
    }
}

std::string thread_text(const format::StacksImage& image, const format::StackThread& thread) {
    std::string text =
        fmt::format("thread {} {} is {}", thread.tid, printable(image.text(thread.name)), state_text(thread.state));
    if (const auto channel = image.text(thread.wait_channel); !channel.empty()) {
        text += fmt::format(" in {}", printable(channel));
    }
    if (thread.system_call >= 0) {
        text += fmt::format(", system call {}", thread.system_call);
    }
    text += fmt::format(", {} of processor time", fine_duration_text(static_cast<double>(thread.cpu_ns)));
    if (const auto python = image.python(thread); !python.empty()) {
        text += fmt::format(", at {}:{} in {}", printable(image.text(python.front().file)), python.front().line,
                            printable(image.text(python.front().function)));
    }
    return text;
}

// Describes the main thread in words, and the others by their states.
std::string threads_text(const std::vector<char>& bytes, int32_t pid) {
    const auto image = format::StacksImage::open(std::as_bytes(std::span(bytes)));
    if (!image) {
        return {};
    }
    std::string text;
    std::map<std::string, size_t> others;
    for (const format::StackThread& thread : image->threads()) {
        if (thread.tid == pid) {
            text = thread_text(*image, thread);
        } else {
            ++others[state_text(thread.state)];
        }
    }
    for (const auto& [state, count] : others) {
        text += fmt::format("; {} more {}", count, state);
    }
    return text;
}

std::string note_of(const NodeProcess& process, const std::string& why) {
    const bool moves = process.presence == Presence::kRunning;
    return fmt::format("read from outside by titan-dump, as the process {}: no native frames{}", why,
                       moves ? ", and Python frames may be torn, because it ran on" : "");
}

tracer::OutsideDump dump_of(const NodeProcess& process, const std::string& why, const std::vector<char>& image) {
    RingHeader header;
    std::memcpy(&header, image.data(), sizeof(header));
    tracer::OutsideDump dump;
    dump.image = image;
    dump.detail = fmt::format("read from outside by titan-dump: the process {}", why);
    dump.realtime_ns = realtime_now_ns();
    dump.ticks = format::RingClock(header).ticks_now();
    dump.process_alive = !process.is_gone() && process.presence != Presence::kUnknown;
    dump.halt = process.presence == Presence::kStopped ? halt_name(halt_of_process(header.pid)) : "";
    dump.run = safe_file_name(process.run().empty() ? "run" : process.run());
    dump.attempt = std::max(header.attempt, 0);
    dump.rank = header.rank;
    dump.pid = header.pid;
    dump.keep = header.dumps_kept != 0 ? header.dumps_kept : kKeepWhereUnknown;
    return dump;
}

std::string absolute(const std::string& directory) {
    return std::filesystem::absolute(directory).lexically_normal().string();
}

Result<OutsideResult> write(const NodeProcess& process, const tracer::OutsideDump& dump, const std::string& wanted) {
    const AsUser as_owner(process.directory.owner);
    const std::string own(format::fixed_text(process.header.dump_directory));
    const std::string directory = !wanted.empty() ? absolute(wanted) : own.starts_with('/') ? own : std::string();
    OutsideResult result;
    result.path = directory.empty() ? std::string() : tracer::write_outside_dump(dump, directory);
    const int failure = errno;
    if (!result.path.empty()) {
        return result;
    }
    result.problem = directory.empty()
                         ? "the process does not say where its dump directory is; --dir chooses one"
                         : fmt::format("{} cannot be written: {}", printable(directory), std::strerror(failure));
    result.path = wanted.empty() ? tracer::write_outside_dump_to_fallback(dump) : std::string();
    return result.path.empty() ? Result<OutsideResult>(Error(result.problem)) : Result<OutsideResult>(result);
}

}  // namespace

Result<OutsideResult> dump_from_outside(const NodeProcess& process, const std::string& why,
                                        const std::string& directory) {
    const bool has_threads = process.presence == Presence::kRunning || process.presence == Presence::kStopped ||
                             process.presence == Presence::kZombie;
    const Result<std::vector<char>> image = copy_ring(process);
    if (!image) {
        return image.error();
    }
    const std::vector<char> stacks =
        has_threads ? tracer::collect_outside_stacks(process.header.pid, note_of(process, why)) : std::vector<char>();
    tracer::OutsideDump dump = dump_of(process, why, *image);
    dump.stacks = stacks;
    dump.threads_of = has_threads ? process.header.pid : 0;
    dump.environment = has_threads ? environment_of(process.header.pid) : std::vector<std::string>();
    Result<OutsideResult> result = write(process, dump, directory);
    if (result) {
        result->threads = threads_text(stacks, process.header.pid);
    }
    return result;
}

std::string newest_dump_of(const NodeProcess& process) {
    namespace files = std::filesystem;
    const AsUser as_owner(process.directory.owner);
    const format::DumpStem stem(process.header.rank, process.header.pid);
    const files::path directory = files::path(format::fixed_text(process.header.dump_directory)) /
                                  safe_file_name(process.run()) / std::to_string(process.header.attempt);
    std::string newest;
    files::file_time_type newest_time;
    std::error_code failed;
    for (files::directory_iterator item(directory, failed), end; !failed && item != end; item.increment(failed)) {
        uint64_t number = 0;
        if (!format::dump_number(item->path().filename().c_str(), stem, number)) {
            continue;
        }
        std::error_code gone;
        const files::file_time_type time = item->last_write_time(gone);
        if (!gone && (newest.empty() || time > newest_time)) {
            newest = item->path().string();
            newest_time = time;
        }
    }
    return newest;
}

}  // namespace titan::tools
