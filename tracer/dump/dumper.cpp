#include "dumper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <span>

#include "base/clock.h"
#include "base/map_private.h"
#include "base/process.h"
#include "base/text.h"
#include "capture_stacks.h"
#include "dump_children.h"
#include "dump_files.h"
#include "dump_meta.h"
#include "formats/container/dump_writer.h"
#include "log.h"
#include "requests.h"
#include "ring.h"
#include "sampling.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kMaxGoneRingBytes = 1ull << 30;

// Owned by the watch thread once the session runs.
struct DumpMemory {
    char* image;
    uint64_t image_bytes;
    char* workspace;
    size_t workspace_bytes;
    char* meta;
    char* environments[2];         // as the session started, and with what NCCL and the program have set since
    char* children;                // as of the snapshot
    std::span<const char> stacks;  // stacks of the snapshot
    uint64_t snapshot_realtime_ns;
    uint64_t snapshot_ticks;
    uint64_t next_number;
    EvidenceNumbers evidence;  // dumps of this process
    char temporary[PATH_MAX];  // TMPDIR
};
constinit DumpMemory memory{};
constinit std::atomic<const char*> newest_environment = nullptr;
constinit std::atomic<bool> environment_noted_again = false;

// Every slot begins with its slot_sequence.
void copy_slots(char* from, char* to, const format::RegionDescriptor& region) {
    for (uint64_t i = 0; i < region.count; ++i, from += region.stride_bytes, to += region.stride_bytes) {
        std::atomic_ref sequence(*reinterpret_cast<uint64_t*>(from));
        const uint64_t before = sequence.load(std::memory_order_acquire);
        if (before == 0) {
            *reinterpret_cast<uint64_t*>(to) = 0;  // never used: the image's memory is zero
            continue;
        }
        copy_words(from, to, region.stride_bytes);
        std::atomic_thread_fence(std::memory_order_acquire);  // partner: the fence of Ring::begin
        const uint64_t after = sequence.load(std::memory_order_relaxed);
        *reinterpret_cast<uint64_t*>(to) = before == after ? before : (after | 1);
    }
}

// Copies header.file_bytes of the live ring to `image`, while others write to it. A slot that changed while it was
// copied gets an odd slot_sequence in the image, as if its writer had been caught in the middle: readers skip it.
void copy_ring(format::RingHeader& ring, uint64_t bytes, char* image) {
    char* base = reinterpret_cast<char*>(&ring);
    copy_words(base, image, format::kHeaderBytes);
    format::for_each_region(ring, [&](const format::RegionDescriptor& region, const format::RegionCursor*) {
        const uint64_t region_bytes = region.count * region.stride_bytes;
        if (region.offset_bytes > bytes || region_bytes > bytes - region.offset_bytes) {
            return;
        }
        if (format::is_ring(region.kind)) {
            copy_slots(base + region.offset_bytes, image + region.offset_bytes, region);
        } else {
            copy_words(base + region.offset_bytes, image + region.offset_bytes, region_bytes);
        }
    });
}

// The ring's table of threads as it was copied: the one in use may change under the reader.
std::span<const format::ThreadRecord> threads_in_copy(const Session& session) {
    const auto offset = reinterpret_cast<const char*>(session.threads) - reinterpret_cast<const char*>(session.header);
    return {reinterpret_cast<const format::ThreadRecord*>(memory.image + offset), session.thread_rows};
}

void say_where(const DumpFile& file, const DumpContent& content, const DumpOwner& owner, int failure, const char* dir) {
    const bool is_one_of_many =
        content.meta.process_alive && failure == 0 && row_of(content.meta.reason).said == Said::kPerNode;
    if (!first_to_tell_of_dump() && is_one_of_many) {
        return;
    }
    std::string_view reason = format::name_of(content.meta.reason);
    char whose[48] = "";
    if (!content.meta.process_alive) {
        format_text(whose, sizeof(whose), " of rank %d", owner.rank);
    }
    char why[256] = "";
    TextWriter why_not(why, sizeof(why));
    if (failure != 0) {
        why_not.text(", as ");
        why_not.escaped(dir, 160);
        why_not.format(" cannot be written: %s", error_text(failure));
    }
    char detail[256];
    TextWriter escaped(detail, sizeof(detail));
    escaped.escaped(content.meta.detail, 200);
    log_line("dump%s written to %s (%s%s%s)%s%s", whose, file.path(), reason.data(), detail[0] == '\0' ? "" : ": ",
             detail, why, is_one_of_many && ranks_here() > 1 ? "; the other ranks of this node dump, too" : "");
}

// The first number that is free as far as we know without listing the directory, which holds files of all ranks; and
// the numbers of dumps to keep.
struct Numbers {
    uint64_t first;
    const EvidenceNumbers& evidence;
};

// Writes to the dump directory, or else to the fallback. Returns the file that was written, null if neither could be.
DumpFile* write_somewhere(const Config& config, DumpContent& content, const DumpOwner& owner, const Numbers& numbers,
                          DumpFile& file, DumpFile& fallback) {
    const DumpRoom room{memory.workspace, memory.workspace_bytes, memory.meta};
    if (file.open_in(config.dir, owner) &&
        write_dump_file(file, content, room, numbers.first, config.keep, numbers.evidence)) {
        say_where(file, content, owner, 0, config.dir);
        return &file;
    }
    const int failure = errno;
    if (fallback.open_fallback(memory.temporary, owner) &&
        write_dump_file(fallback, content, room, numbers.first, config.keep, numbers.evidence)) {
        say_where(fallback, content, owner, failure, config.dir);
        return &fallback;
    }
    const int second = errno;
    log_line("dump could not be written: %s: %s; fallback: %s", config.dir, error_text(failure), error_text(second));
    return nullptr;
}

// The ring that a process left behind, in memory to unmap; null: it cannot be read, or is another's. Read, not mapped:
// a file that is cut off meanwhile must not become a SIGBUS.
char* read_ring_of(const JobProcess& process, uint64_t& bytes) {
    struct stat status {};
    const Fd file = open_ring_at(process.ring_path);
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < static_cast<off_t>(sizeof(format::RingHeader)) ||
        static_cast<uint64_t>(status.st_size) > kMaxGoneRingBytes) {
        return nullptr;
    }
    bytes = static_cast<uint64_t>(status.st_size);
    char* const image = map_private<char>(bytes);
    if (image == nullptr) {
        return nullptr;
    }
    const auto& header = *reinterpret_cast<const format::RingHeader*>(image);
    if (read_at(file.get(), 0, image, bytes) != bytes || header.magic != format::kRingMagic ||
        header.pid != process.pid || header.pid_start_ticks != process.start_ticks) {
        munmap(image, bytes);
        return nullptr;
    }
    return image;
}

}  // namespace

bool prepare_dumper(Session& session) {
    memory = DumpMemory{};
    memory.image_bytes = session.ring_file.bytes;
    memory.workspace_bytes = format::section_workspace_bytes();
    memory.image = map_private<char>(memory.image_bytes);
    memory.workspace = map_private<char>(memory.workspace_bytes);
    memory.meta = map_private<char>(kMetaBytes);
    for (char*& environment : memory.environments) {
        environment = map_private<char>(kEnvironmentBytes);
    }
    memory.children = map_private<char>(kChildrenBytes);
    if (memory.image == nullptr || memory.workspace == nullptr || memory.meta == nullptr ||
        memory.environments[0] == nullptr || memory.environments[1] == nullptr || memory.children == nullptr) {
        warn_once("no memory for dumps: only the ring file will show what happened");
        memory.image = nullptr;
        return false;
    }
    write_environment(memory.environments[0], kEnvironmentBytes, environ);
    newest_environment.store(memory.environments[0], std::memory_order_release);
    environment_noted_again = false;
    forget_children();
    copy_text(memory.temporary, sizeof(memory.temporary), temporary_directory());
    set_reading_group(session.config.group);
    return true;
}

void note_environment() {
    if (memory.image == nullptr || environment_noted_again.exchange(true)) {
        return;
    }
    write_environment(memory.environments[1], kEnvironmentBytes, environ);
    newest_environment.store(memory.environments[1], std::memory_order_release);
}

void take_snapshot(Session& session) {
    if (memory.image == nullptr) {
        return;
    }
    memory.snapshot_realtime_ns = realtime_now_ns();
    memory.snapshot_ticks = now_ticks();
    copy_ring(*session.ring_file.header, session.ring_file.bytes, memory.image);
}

void take_stacks(const Session& session, int32_t crashing_thread) {
    memory.stacks = session.config.stacks.dump ? collect_stacks(crashing_thread) : std::span<const char>();
    if (!memory.stacks.empty() && memory.image != nullptr) {
        name_samples_of(session, memory.image);
    }
    write_children(memory.children, kChildrenBytes, session.config.stacks.dump);
}

bool write_dump(Session& session, const DumpOrder& order) {
    if (memory.image == nullptr) {
        note_dump_ended(*session.ring_file.header, nullptr);
        return false;
    }
    const Identity& identity = session.identity;
    DumpContent content{.meta = {.number = 0,  // write_dump_file finds it
                                 .reason = order.reason,
                                 .detail = order.detail,
                                 .requested_by_rank = order.requested_by_rank,
                                 .realtime_ns = memory.snapshot_realtime_ns,
                                 .ticks = memory.snapshot_ticks,
                                 .saved_by_rank = -1,
                                 .process_alive = true,
                                 .environment = newest_environment.load(std::memory_order_acquire),
                                 .processors = read_processors(0, threads_in_copy(session)),
                                 .machine = read_machine(),
                                 .children = memory.children},
                        .image = memory.image,
                        .image_bytes = memory.image_bytes,
                        .stacks = memory.stacks};
    DumpOwner owner{identity.run, identity.attempt, identity.rank, identity.pid};
    DumpFile file;
    DumpFile fallback;
    DumpFile* const written =
        write_somewhere(session.config, content, owner, {memory.next_number, memory.evidence}, file, fallback);
    note_dump_ended(*session.ring_file.header, written == nullptr ? nullptr : written->path());
    if (written == nullptr) {
        return false;
    }
    memory.next_number = written->number() + 1;
    if (order.evidence != Evidence::kNone) {
        const uint64_t oldest = memory.evidence.add(written->number(), order.evidence, session.config.keep);
        if (oldest != EvidenceNumbers::kNone && written->number() - oldest >= session.config.keep) {
            written->remove(oldest);
        }
    }
    if (order.keeps_rings) {
        note_dump_written();
    }
    return true;
}

bool write_dump_of_gone(Session& session, const JobProcess& process) {
    uint64_t bytes = 0;
    char* const image = memory.image != nullptr ? read_ring_of(process, bytes) : nullptr;
    if (image == nullptr) {
        return false;
    }
    const auto& header = *reinterpret_cast<const format::RingHeader*>(image);
    char detail[96];
    format_text(detail, sizeof(detail), "ring of pid %d, which %s", process.pid,
                header.state == format::ProcessState::kExited ? "had exited" : "is gone");
    const Identity& identity = session.identity;
    DumpContent content{.meta = {.number = 0,
                                 .reason = format::DumpReason::kCollected,
                                 .detail = detail,
                                 .requested_by_rank = identity.rank,
                                 .realtime_ns = realtime_now_ns(),
                                 .ticks = now_ticks(),
                                 .saved_by_rank = identity.rank,
                                 .process_alive = false,
                                 .environment = "{}"},
                        .image = image,
                        .image_bytes = bytes,
                        .stacks = {}};
    const DumpOwner owner{identity.run, identity.attempt, process.rank, process.pid};
    DumpFile file;
    DumpFile fallback;
    const bool written = write_somewhere(session.config, content, owner, {header.dumps_written, EvidenceNumbers()},
                                         file, fallback) != nullptr;
    munmap(image, bytes);
    return written;
}

void release_dump_memory() {
    if (memory.image != nullptr) {
        release_pages(memory.image, memory.image_bytes);
        release_pages(memory.workspace, memory.workspace_bytes);
        release_stacks_memory();
        memory.stacks = {};
    }
}

}  // namespace titan::tracer
