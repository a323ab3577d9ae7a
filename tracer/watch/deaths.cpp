#include "deaths.h"

#include <string.h>

#include "base/clock.h"
#include "base/maps.h"
#include "base/text.h"
#include "dump_policy.h"
#include "dumper.h"
#include "ending.h"
#include "log.h"
#include "requests.h"

namespace titan::tracer {
namespace {

// A process that was told to end counts as dead if no other is told to end within this time.
constexpr uint64_t kAskedTogetherNs = 5'000'000'000;

constinit uint64_t asked_gone_ns = 0;  // when a process that was told to end was first found gone, 0 none

bool has_asked_one_died_alone(const Session& session) {
    if (!is_asked_one_gone()) {
        asked_gone_ns = 0;
        return false;
    }
    const uint64_t now_ns = monotonic_now_ns();
    asked_gone_ns = asked_gone_ns == 0 ? now_ns : asked_gone_ns;
    return !is_asked_to_end(*session.ring_file.header) && now_ns - asked_gone_ns > kAskedTogetherNs;
}

// The watch thread moves the heartbeat about once a second.
constexpr uint64_t kSilentSeconds = 3;

bool is_silent(const JobProcess& process) {
    const Fd ring = open_ring_at(process.ring_path);
    format::RingHeader header;
    return ring.valid() && read_at(ring.get(), 0, &header, sizeof(header)) == sizeof(header) &&
           header.pid == process.pid && now_ticks() > header.heartbeat_ticks &&
           now_ticks() - header.heartbeat_ticks > kSilentSeconds * header.ticks_per_second;
}

// False if the memory is gone, as in a process that ends, or must not be read.
bool has_mapped_other_than(const JobProcess& process) {
    const char* const slash = strrchr(process.ring_path, '/');
    char room[4400];
    MapsReader maps(process.pid, room, sizeof(room));
    bool any = false;
    for (Mapping mapping; maps.next(mapping);) {
        if (slash == nullptr || strstr(mapping.path, slash) != nullptr) {
            return false;
        }
        any = true;
    }
    return any && maps.error() == 0;
}

// A process lives, but its memory belongs to another program now: it called exec without telling us. Only silent
// processes are looked at.
bool was_replaced(const JobProcess& process) { return is_silent(process) && has_mapped_other_than(process); }

}  // namespace

void forget_deaths() { asked_gone_ns = 0; }

void look_for_the_dead(const Session& session) {
    notice_replaced(was_replaced);
    report_dead(session);
}

void report_dead(const Session& session) {
    const JobProcess* dead = nullptr;
    if (!notice_dead(dead, has_asked_one_died_alone(session))) {
        return;
    }
    char detail[96];
    format_text(detail, sizeof(detail), "rank %d (pid %d) died", dead->rank, dead->pid);
    if ((session.config.dump_on & dump_bit(format::DumpReason::kCrash)) != 0) {
        leave_request(format::DumpReason::kCrash, detail);
    } else {
        warn_once("%s", detail);
    }
}

void dump_the_gone(Session& session) {
    if (crashed_itself(session)) {
        return;  // this process is about to die itself: leave them to the living
    }
    claim_gone([](const JobProcess& process) {
        Session* const current = tracer::session();
        return current != nullptr && write_dump_of_gone(*current, process);
    });
}

void save_the_dead(Session& session) {
    const JobProcess* dead = nullptr;
    notice_dead(dead, false);
    dump_the_gone(session);
}

bool has_anyone_died_here() {
    const JobProcess* dead = nullptr;
    return notice_dead(dead, false) || has_anyone_died();
}

}  // namespace titan::tracer
