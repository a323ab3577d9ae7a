#include "observing.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"

namespace titan::tracer {

namespace {

using format::GpuProgressMethod;

// One of each `count`, the same ones on all ranks. Which one differs from the ones before: what recurs in each n-th is
// observed at times, whatever n is.
bool is_one_of(uint64_t count, uint64_t number) {
    return count <= 1 || number % count == mix_hash(count, number / count) % count;
}

// All launches of one step of each `sample`: a whole step tells what some launches of each do not. In the other steps
// a few show that the GPU goes on.
bool is_sampled(const Recording& recording, uint64_t number) {
    const uint64_t sample = recording.config.gpu_progress.sample;
    const int64_t step = load_field(recording.header->step);
    return step < 0 ? is_one_of(sample, number)
                    : is_one_of(sample, static_cast<uint64_t>(step)) || is_one_of(sample * sample, number);
}

}  // namespace

void Observing::start(Recording& recording, GpuProgressMethod method) {
    recording_ = &recording;
    by_budget_ = recording.config.gpu_progress.by_budget;
    recording.header->gpu_progress_sample = recording.config.gpu_progress.sample;
    store_field(recording.header->gpu_progress, method);
    if (!by_budget_) {
        return;
    }
    budget_.start(recording.config.budget, kMarkCosts);
    store_field(recording.header->gpu_budget, recording.config.budget);
    refused_.store(method != GpuProgressMethod::kWrites, std::memory_order_relaxed);
    unit_ticks_ = now_ticks();
    step_.store(format::kNoStep, std::memory_order_relaxed);
    publish(0);
    set_limits(0, load_field(recording.header->step));
}

void Observing::note_refused() {
    refused_.store(true, std::memory_order_relaxed);
    store_field(recording_->header->gpu_progress, GpuProgressMethod::kEvents);
}

Marks Observing::choose_otherwise(uint64_t number) {
    if (!by_budget_) {
        return is_sampled(*recording_, number) ? Marks::kFull : Marks::kNone;
    }
    if (ends_unit(number)) {
        begin_unit(number);
    }
    if (number < full_until_.load(std::memory_order_acquire)) {
        return Marks::kFull;
    }
    if (!any_light_.load(std::memory_order_relaxed)) [[unlikely]] {
        tell_light();
    }
    return is_one_of(light_of_.load(std::memory_order_relaxed), number) ? Marks::kLight : Marks::kNone;
}

void Observing::begin_unit(uint64_t number) {
    if (busy_.exchange(true, std::memory_order_acquire)) {
        return;
    }
    if (ends_unit(number)) {  // another thread may have begun the same unit meanwhile
        const int64_t step = load_field(recording_->header->step);
        add_ended(number, now_ticks());
        publish(number);
        set_limits(number, step);
    }
    busy_.store(false, std::memory_order_release);
}

void Observing::add_ended(uint64_t number, uint64_t now) {
    const uint64_t end = std::max(number, unit_first_);
    if (end == unit_first_) {  // before the first launch of all: no step, and how long it took says nothing
        unit_ticks_ = now;
        return;
    }
    const uint64_t full_end = std::clamp(full_until_.load(std::memory_order_relaxed), unit_first_, end);
    if (refused_.load(std::memory_order_relaxed)) {
        budget_.set_costs(
            {.full_gpu_ns = 0, .full_host_ns = kMarkCosts.light_host_ns, .light_host_ns = kMarkCosts.light_host_ns});
    }
    budget_.add({.took_ns = now > unit_ticks_ ? ticks_to_ns(now - unit_ticks_) : 0,
                 .launches = end - unit_first_,
                 .full = full_end - unit_first_});
    if (full_end < end) {
        newest_light_ = end;
        newest_unseen_ = light_of_.load(std::memory_order_relaxed) > 1 ? end : newest_unseen_;
    }
    unit_first_ = end;
    unit_ticks_ = now;
}

void Observing::set_limits(uint64_t number, int64_t step) {
    const bool is_marked = step >= 0 && step != step_.load(std::memory_order_relaxed);
    const uint64_t block = number / kUnitLaunches;
    const uint64_t full = budget_.full_launches(is_marked ? static_cast<uint64_t>(step) : block);
    unit_end_.store(is_marked ? number + kMostLaunchesOfStep : (block + 1) * kUnitLaunches, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
    light_of_.store(budget_.plan().light_of, std::memory_order_relaxed);
    full_until_.store(full > UINT64_MAX - number ? UINT64_MAX : number + full, std::memory_order_release);
}

// What holds of the process as a whole is what holds of its weakest launches: the header's method changes before the
// first light mark, and back only when the ring holds none of them any more. Entries say for themselves which they had.
void Observing::tell_light() {
    store_field(recording_->header->gpu_progress, GpuProgressMethod::kEvents);
    any_light_.store(true, std::memory_order_release);
}

void Observing::publish(uint64_t number) {
    format::RingHeader& header = *recording_->header;
    const uint64_t slots = recording_->collectives.slots();
    const ObservingPlan& plan = budget_.plan();
    if (any_light_.load(std::memory_order_relaxed) && number - newest_light_ > slots) {
        any_light_.store(false, std::memory_order_relaxed);
        if (!refused_.load(std::memory_order_relaxed)) {
            store_field(header.gpu_progress, GpuProgressMethod::kWrites);
        }
    }
    if (plan.light_of > 1 || number - newest_unseen_ > slots) {
        store_field(header.gpu_progress_sample, plan.light_of);
    }
    store_field(header.gpu_full_of, plan.full_of);
    store_field(header.gpu_light_of, plan.light_of);
    store_field(header.gpu_unit_launches,
                static_cast<uint32_t>(std::min<uint64_t>(budget_.unit_launches(), UINT32_MAX)));
    store_field(header.gpu_unit_ns, budget_.unit_ns());
}

}  // namespace titan::tracer
