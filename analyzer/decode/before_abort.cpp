#include "before_abort.h"

#include <algorithm>
#include <limits>

#include "host_threads.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Since when no entry of one kind in a ring has changed.
class Stillness {
  public:
    Stillness(const format::RingClock& clock, int64_t until_ns) : clock_(clock), until_ns_(until_ns) {}

    // The times of an entry, the first of which is when it was entered.
    void see(std::initializer_list<uint64_t> ticks) {
        for (const uint64_t tick : ticks) {
            const int64_t time_ns = clock_.realtime_ns(tick);
            if (time_ns < until_ns_) {
                moved_ns_ = std::max(moved_ns_, time_ns);
            }
        }
        oldest_ns_ = std::min(oldest_ns_, clock_.realtime_ns(*ticks.begin()));
    }
    int64_t since_ns(const format::RingLosses& losses) const {
        if (losses.torn != 0) {
            return kNever;
        }
        return losses.overwritten == 0 ? moved_ns_ : std::max(moved_ns_, oldest_ns_);
    }

  private:
    const format::RingClock& clock_;
    int64_t until_ns_;
    int64_t moved_ns_ = std::numeric_limits<int64_t>::min();
    int64_t oldest_ns_ = kNever;
};

const Member* member_of(const Process& process, uint64_t id) {
    const auto found = std::find_if(process.members.begin(), process.members.end(),
                                    [&](const Member& member) { return member.id == id; });
    return found == process.members.end() ? nullptr : &*found;
}

}  // namespace

int64_t first_abort_ns(const Process& process) {
    int64_t first_ns = 0;
    for (const Entry& entry : process.entries) {
        if (entry.row == kNoIndex || !format::moves_data(entry.kind) || entry.state == CallState::kFinished) {
            continue;
        }
        const Member& member = process.members[entry.row];
        if (member.state == CommState::kAborted && member.closed_ns > entry.entered_ns &&
            (first_ns == 0 || member.closed_ns < first_ns)) {
            first_ns = member.closed_ns;
        }
    }
    return first_ns;
}

int64_t earlier_abort_ns(int64_t one_ns, int64_t other_ns) {
    return one_ns == 0 ? other_ns : other_ns == 0 ? one_ns : std::min(one_ns, other_ns);
}

int64_t aftermath_since_ns(const Process& process, int64_t first_in_job_ns) {
    return has_aborted(process) ? earlier_abort_ns(first_abort_ns(process), first_in_job_ns) : 0;
}

bool is_before_abort(const Process& dumped, const Process& later) {
    const int64_t abort_ns = first_abort_ns(later);
    // A communicator is marked as closed when its abort is called, which waits for a dump, and before anything is
    // aborted.
    return std::none_of(later.members.begin(), later.members.end(), [&](const Member& member) {
        const Member* const then = member_of(dumped, member.id);
        return member.state == CommState::kAborted && member.closed_ns >= abort_ns && then != nullptr &&
               then->closed_ns != 0 && then->closed_ns < dumped.now_ns;
    });
}

int64_t still_since_ns(const OpenedSource& opened, int64_t until_ns) {
    const format::RingImage& image = opened.image;
    const auto& clock = image.clock();
    Stillness calls(clock, until_ns);
    const auto call_losses = image.for_each_collective([&](uint64_t, const format::CollectiveEntry& entry) {
        if (format::moves_data(entry.kind) || is_creation(entry.kind)) {
            calls.see({entry.entered_ticks, entry.returned_ticks, entry.gpu_started_ticks, entry.gpu_finished_ticks});
        }
    });
    Stillness waits(clock, until_ns);
    const auto wait_losses = image.for_each_cuda_call([&](uint64_t, const format::CudaCallEntry& call) {
        waits.see({call.entered_ticks, call.returned_ticks});
    });
    Stillness work(clock, until_ns);
    const auto work_losses = image.for_each_stream_work(
        [&](uint64_t, const format::StreamWorkEntry& entry) { work.see({entry.entered_ticks}); });
    return std::max({calls.since_ns(call_losses), waits.since_ns(wait_losses), work.since_ns(work_losses)});
}

void hold_until_end(Process& dumped, const Process& later) {
    dumped.now_ns = later.now_ns;
    dumped.moment = later.moment;
    dumped.liveness = later.liveness;
    dumped.ending = later.ending;
    dumped.fatal_signal = later.fatal_signal;
    dumped.fatal_thread = later.fatal_thread;
}

void hold_until_abort(Process& dumped, const Process& later, int64_t abort_ns) {
    hold_until_end(dumped, later);
    dumped.now_ns = abort_ns;
    for (Member& member : dumped.members) {
        const Member* const then = member_of(later, member.id);
        if (then != nullptr && then->state == CommState::kAborted) {
            member.state = then->state;
            member.closed_ns = then->closed_ns;
        }
    }
}

}  // namespace titan::analyzer
