#include "decode_timing.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "call_period.h"

namespace titan::analyzer {
namespace {

constexpr double kMostOfPeriod = 0.9;   // share of the calls that a period covers which several of them cover, too
constexpr uint64_t kTimesLaunches = 2;  // as many launches before a call as before another one that is equal

// Calls that a step is counted by, and how many of them are in each: the collectives of a communicator that all ranks
// of a step have calls on, or the sends to one rank in a program that makes nothing but sends and receives.
struct Beat {
    uint32_t row = kNoIndex;
    uint64_t calls = 0;
    int32_t sends_to = -1;  // -1: collectives

    bool has(const Entry& entry) const {
        return entry.row == row && (sends_to < 0 ? format::class_of(entry.kind) != format::OpClass::p2p
                                                 : entry.kind == format::OpKind::kSend && entry.peer == sends_to);
    }
};

// The n-th message of each pair belongs to the n-th micro-batch, unless several threads send.
Beat beat_of_sends(const Process& process, const std::vector<uint32_t>& places, const CallPeriod& period) {
    Beat beat;
    const uint32_t thread = process.entries[places.back()].thread;
    if (std::any_of(places.begin(), places.end(),
                    [&](uint32_t place) { return process.entries[place].thread != thread; })) {
        return beat;
    }
    for (size_t i = places.size() - period.calls; i < places.size(); ++i) {
        const Entry& entry = process.entries[places[i]];
        if (beat.row == kNoIndex && entry.row != kNoIndex && entry.kind == format::OpKind::kSend) {
            beat = {entry.row, 0, entry.peer};
        }
        beat.calls += beat.has(entry) ? 1 : 0;
    }
    return beat;
}

Beat beat_of(const Process& process, const std::vector<uint32_t>& places, const CallPeriod& period) {
    std::unordered_map<uint32_t, uint64_t> calls;
    for (size_t i = places.size() - period.calls; i < places.size(); ++i) {
        const Entry& entry = process.entries[places[i]];
        if (entry.row != kNoIndex && format::class_of(entry.kind) != format::OpClass::p2p) {
            ++calls[entry.row];
        }
    }
    // Of several of one size the one that was made first, so that ranks that do the same choose the same one.
    Beat beat;
    for (const auto& [row, count] : calls) {
        const auto worth = [&](uint32_t one) { return std::pair(process.members[one].size, ~one); };
        if (beat.row == kNoIndex || worth(row) > worth(beat.row)) {
            beat = {row, count};
        }
    }
    return beat.row == kNoIndex ? beat_of_sends(process, places, period) : beat;
}

uint64_t shape_of(const Entry& entry) {
    const uint64_t call = mix_hash(mix_hash(0, entry.row), static_cast<uint64_t>(entry.kind));
    return mix_hash(call, static_cast<uint32_t>(entry.peer));
}

// Messages whose sizes differ from step to step repeat nevertheless.
CallPeriod period_of(const Process& process, const std::vector<uint32_t>& places) {
    CallPeriod best;
    for (const bool with_sizes : {true, false}) {
        std::vector<uint64_t> shapes;
        for (const uint32_t place : places) {
            const Entry& entry = process.entries[place];
            shapes.push_back(with_sizes ? mix_hash(shape_of(entry), entry.count) : shape_of(entry));
        }
        const CallPeriod period = call_period(shapes);
        best = period.covered > 2 * best.covered ? period : best;
    }
    return best;
}

// How many launches came before each call, behind the one before it; of the last calls, as far back as launches are on
// record.
std::vector<uint64_t> launches_between(const Process& process, const std::vector<int64_t>& launches_ns,
                                       int64_t since_ns, const std::vector<uint32_t>& places) {
    std::vector<uint64_t> counts;
    auto launch = launches_ns.begin();
    for (const uint32_t place : places) {
        const Entry& entry = process.entries[place];
        const auto end = std::upper_bound(launch, launches_ns.end(), entry.entered_ns);
        if (entry.entered_ns > since_ns && launch != launches_ns.begin()) {
            counts.push_back(static_cast<uint64_t>(end - launch));
        }
        launch = end;
    }
    return counts;
}

// If all calls are equal (gradients in buckets of one size), or a few repeat within a step, the launches between them
// show where a step begins: by their number to a factor of 2, because a step that logs something has some more.
CallPeriod with_launches(const Process& process, const std::vector<uint64_t>& counts,
                         const std::vector<uint32_t>& places, const CallPeriod& period) {
    std::vector<uint64_t> shapes;
    for (size_t i = 0; i < counts.size(); ++i) {
        const Entry& entry = process.entries[places[places.size() - counts.size() + i]];
        shapes.push_back(mix_hash(shape_of(entry), static_cast<uint64_t>(std::bit_width(counts[i]))));
    }
    const CallPeriod whole = call_period(shapes);
    if (period.calls <= 1) {
        return whole;
    }
    const bool is_of_several = whole.calls > period.calls && whole.calls % period.calls == 0 && whole.behind == 0 &&
                               static_cast<double>(whole.covered) >=
                                   kMostOfPeriod * static_cast<double>(std::min(period.covered, counts.size()));
    for (size_t i = counts.size() - (is_of_several ? whole.calls : 0); i + period.calls < counts.size(); ++i) {
        const auto [fewer, more] = std::minmax(counts[i], counts[i + period.calls]);
        if (more >= kTimesLaunches * std::max<uint64_t>(fewer, 1)) {
            return whole;
        }
    }
    return period;
}

}  // namespace

std::vector<StepProfile> steps_by_period(const Process& process, const std::vector<int64_t>& launches_ns,
                                         int64_t since_ns) {
    std::vector<uint32_t> places;
    for (uint32_t place = 0; place < process.entries.size(); ++place) {
        const Entry& entry = process.entries[place];
        if (format::moves_data(entry.kind) && !entry.captured && entry.entered_ns > 0) {
            places.push_back(place);
        }
    }
    std::vector<StepProfile> steps;
    CallPeriod period = period_of(process, places);
    places.resize(places.size() - std::exchange(period.behind, 0));
    if (period.calls > 0) {
        period = with_launches(process, launches_between(process, launches_ns, since_ns, places), places, period);
        places.resize(places.size() - period.behind);
    }
    // Nothing says how many of one call that comes again and again are in a step: each counts as one, and shares
    // of it are shares of a step.
    const Beat beat = period.calls == 0 ? Beat() : beat_of(process, places, period);
    if (beat.row == kNoIndex) {
        return steps;
    }
    for (size_t i = places.size() - period.covered; i < places.size(); ++i) {
        const Entry& entry = process.entries[places[i]];
        if (!beat.has(entry) || entry.sequence % beat.calls != 0) {
            continue;
        }
        if (!steps.empty()) {
            steps.back().end_ns = std::max(entry.entered_ns, steps.back().begin_ns);
        }
        StepProfile step;
        step.begin_ns = entry.entered_ns;
        step.step = static_cast<int32_t>(std::min<uint64_t>(entry.sequence / beat.calls, INT32_MAX));
        steps.push_back(step);
    }
    if (!steps.empty()) {
        steps.pop_back();
    }
    return steps;
}

}  // namespace titan::analyzer
