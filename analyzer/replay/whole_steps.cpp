#include "whole_steps.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// Behind the newest call that the GPU has ended: a host that runs ahead has made many more. All calls where ends are
// not seen, or of a sample alone.
size_t end_of_ended(const Process& process) {
    const size_t history = process.history.size();
    if (!process.gpu_progress || process.gpu_sample > 1) {
        return history;
    }
    const auto newest = std::find_if(process.call_times.rbegin(), process.call_times.rend(),
                                     [](const CallTimes& times) { return times.ended != kNoIndex; });
    return newest == process.call_times.rend() ? history
                                               : history - static_cast<size_t>(newest - process.call_times.rbegin());
}

}  // namespace

uint32_t end_of_last(const Process& process) {
    const StepProfile& last = process.steps.back();
    uint32_t end = process.history.size();
    for_each_timed_call(process, [&](uint32_t place, const CallTimes&, int64_t entered_ns) {
        // Entries are on record in units, rounded down.
        const bool is_behind = entered_ns + CallTimes::kUnitNs > last.end_ns;
        end = place > last.first_call && is_behind ? std::min(end, place) : end;
    });
    return end;
}

StepRange whole_steps(const Process& process) {
    StepRange range;
    const size_t history = process.history.size();
    if (process.steps.size() < 2 || process.call_times.empty() || process.call_times.size() > history) {
        return range;
    }
    const size_t oldest = history - process.call_times.size();
    const size_t ended = end_of_ended(process);
    const auto is_pending = [&](uint32_t place) {
        return place >= ended && format::moves_data(process.history[place].kind) && !process.history[place].captured;
    };
    // The step that the ring lost the beginning of is cut, too.
    const bool cut = process.overwritten != 0 || oldest != 0;
    for (size_t i = 0; i < process.steps.size(); ++i) {
        const StepProfile& step = process.steps[i];
        if (step.first_call < oldest + (cut ? 1 : 0) || step.first_call > history) {
            continue;
        }
        const bool is_last = i + 1 == process.steps.size();
        const auto end = static_cast<uint32_t>(
            std::min<size_t>(history, is_last ? end_of_last(process) : process.steps[i + 1].first_call));
        bool pending = false;
        for (auto place = static_cast<uint32_t>(std::max<size_t>(ended, step.first_call)); place < end; ++place) {
            pending |= is_pending(place);
        }
        if (pending) {
            break;
        }
        if (range.empty()) {
            range.first = step.step;
        }
        range.last = step.step;
    }
    return range;
}

int64_t end_of_first_call_ns(const Process& process, int32_t step) {
    const StepProfile* const profile = process.profile_of(step);
    const uint32_t first = profile != nullptr ? profile->first_call : end_of_last(process);
    int64_t ended_ns = 0;
    bool found = false;
    for_each_timed_call(process, [&](uint32_t place, const CallTimes& times, int64_t entered_ns) {
        const CallSignature& call = process.history[place];
        if (found || place < first || !format::moves_data(call.kind) || call.captured) {
            return;
        }
        found = true;
        ended_ns = times.ended == kNoIndex ? 0 : entered_ns + int64_t{times.ended} * CallTimes::kUnitNs;
    });
    return ended_ns;
}

int64_t ended_before_ns(const Process& process, const StepProfile& step) {
    int64_t newest_ns = 0;
    for_each_timed_call(process, [&](uint32_t place, const CallTimes& times, int64_t entered_ns) {
        if (place < step.first_call && times.ended != kNoIndex) {
            newest_ns = std::max(newest_ns, entered_ns + int64_t{times.ended} * CallTimes::kUnitNs);
        }
    });
    return newest_ns;
}

bool loads_code(const Process& process, int64_t begin_ns, int64_t end_ns) {
    return std::any_of(process.steps.begin(), process.steps.end(), [&](const StepProfile& step) {
        return step.load_ns > 0 && step.begin_ns < end_ns && step.end_ns > begin_ns;
    });
}

}  // namespace titan::analyzer
