#include "dump/request_dump.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstddef>
#include <set>
#include <utility>

#include "formats/ring/job_image.h"
#include "formats/ring/ring_image.h"
#include "host/words.h"

namespace titan::tools {
namespace {

using format::JobSegment;
using format::RingHeader;

uint32_t random_number() {
    uint32_t number = 0;
    return ::getrandom(&number, sizeof(number), 0) == sizeof(number) && number != 0 ? number : 1;
}

struct Segment {
    OwnedFile file;
    std::vector<format::JobMember> members;
};

// Its name is made of what the ring says: OwnedFile lets no path through.
Result<Segment> open_segment_in(const PrivateDir& directory, const std::string& name) {
    Result<OwnedFile> file = OwnedFile::open(directory, name, OwnedFile::For::kAsking);
    if (!file) {
        return file.error();
    }
    std::vector<std::byte> bytes(sizeof(JobSegment));
    bytes.resize(file->size_bytes() == sizeof(JobSegment) ? file->read_at(0, bytes.data(), bytes.size()) : 0);
    Result<std::vector<format::JobMember>> members = format::read_job_segment(bytes);
    if (!members) {
        return members.error().within(directory.path + "/" + name);
    }
    return Segment{std::move(*file), std::move(*members)};
}

std::string segment_name(const RingHeader& header) {
    return format::job_segment_name(format::fixed_text(header.run), header.attempt);
}

const format::JobMember* find_member(const Segment& segment, const NodeProcess& process) {
    for (const format::JobMember& member : segment.members) {
        if (member.pid == process.header.pid && member.start_ticks == process.header.pid_start_ticks) {
            return &member;
        }
    }
    return nullptr;
}

// The segment that lists the process: beside its ring, or where else this user's rings may lie, because a rank that
// found no room there has its ring elsewhere. Else the one beside the ring.
Result<Segment> open_segment(const NodeProcess& process) {
    const std::string name = segment_name(process.header);
    Result<Segment> segment = open_segment_in(process.directory, name);
    if (segment && find_member(*segment, process) != nullptr) {
        return segment;
    }
    for (const PrivateDir& directory : private_directories(ring_directories(""), Users::kAllForRoot)) {
        Result<Segment> other =
            directory.owner == process.directory.owner ? open_segment_in(directory, name) : Error("");
        if (other && find_member(*other, process) != nullptr) {
            return other;
        }
    }
    return segment;
}

}  // namespace

Result<Question> Question::ask(const NodeProcess& process, bool other_nodes) {
    Result<OwnedFile> ring = OwnedFile::open(process.directory, process.ring_name, OwnedFile::For::kAsking);
    if (!ring) {
        return ring.error();
    }
    RingHeader header;
    if (ring->read_at(0, &header, sizeof(header)) != sizeof(header) || header.magic != format::kRingMagic ||
        header.pid != process.header.pid || header.pid_start_ticks != process.header.pid_start_ticks) {
        return Error("its ring was truncated or replaced");
    }
    if (header.dump_answers != 1) {
        return Error(fmt::format("its titantrace ({}) does not answer titan-dump, only a signal",
                                 printable(format::fixed_text(header.writer))));
    }
    // The number of dumps was read before this, so one that begins from now on is later.
    const uint64_t request = format::make_dump_request(random_number(), ::getpid(), other_nodes);
    if (!ring->write_at(offsetof(RingHeader, dump_request), &request, sizeof(request))) {
        return Error("its ring cannot be written to");
    }
    return Question(std::move(*ring), header);
}

bool Question::read_header(RingHeader& header) const {
    return ring_.read_at(0, &header, sizeof(header)) == sizeof(header) && header.magic == format::kRingMagic;
}

bool Question::is_answered() const {
    RingHeader header;
    return read_header(header) && header.dumps_ended > before_.dumps_begun;
}

std::string Question::path() const {
    RingHeader header;
    return read_header(header) ? std::string(format::fixed_text(header.last_dump)) : std::string();
}

bool Question::was_written() const {
    RingHeader header;
    return read_header(header) && header.dumps_written > before_.dumps_written;
}

std::vector<std::string> wake_jobs(const std::vector<NodeProcess>& asked) {
    std::vector<std::string> problems;
    std::set<std::pair<std::string, std::string>> woken;
    for (const NodeProcess& process : asked) {
        const std::string name = segment_name(process.header);
        if (!woken.insert({process.directory.path, name}).second) {
            continue;
        }
        const Result<Segment> segment = open_segment(process);
        if (!segment) {
            problems.push_back(fmt::format("{}: its ranks see the request within a second, not at once",
                                           printable(segment.error().text())));
            continue;
        }
        // Watchers compare the word with what they saw: any other value will do, and what others add meanwhile is no
        // loss.
        const uint32_t word = random_number();
        segment->file.write_at(offsetof(JobSegment, wake), &word, sizeof(word));
        segment->file.wake_at(offsetof(JobSegment, wake));
    }
    return problems;
}

Claim claim_gone(const NodeProcess& process) {
    const Result<Segment> segment = open_segment(process);
    const format::JobMember* const member = segment ? find_member(*segment, process) : nullptr;
    if (member == nullptr) {
        return Claim::kNoPage;
    }
    if (member->claim != 0) {
        return Claim::kOthers;
    }
    const auto own = static_cast<uint32_t>(::getpid());
    segment->file.write_at(member->claim_offset_bytes, &own, sizeof(own));
    return Claim::kOurs;
}

}  // namespace titan::tools
