// Which marks each launch has: as the user's method says, or as the budget allows. hot.
//
// Launches belong to units (budget.h). The first launch of a unit, on whichever thread, adds up the unit before it and
// sets the limits that the others compare their number with.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic_field.h"
#include "budget.h"
#include "recording.h"

namespace titan::tracer {

enum class Marks : uint8_t { kNone, kLight, kFull };

class Observing {
  public:
    // Launches of a unit where no steps are marked: some steps of most programs, and few enough for the ring to hold
    // many units.
    static constexpr uint64_t kUnitLaunches = format::kUnmarkedUnitLaunches;
    // A step with more is taken for a program that has ceased to mark steps.
    static constexpr uint64_t kMostLaunchesOfStep = 8192;

    // Once, before the first launch.
    void start(Recording& recording, format::GpuProgressMethod method);

    // The driver refuses stream writes: events take their place, and full marks cost what light ones do. any-thread.
    void note_refused();

    // Once for each launch, by its number. any-thread.
    Marks choose(uint64_t number) {
        const bool is_full = by_budget_ ? number < full_until_.load(std::memory_order_acquire) && !ends_unit(number)
                                        : recording_->config.gpu_progress.sample <= 1;
        return is_full ? Marks::kFull : choose_otherwise(number);
    }

  private:
    bool ends_unit(uint64_t number) const {
        return number >= unit_end_.load(std::memory_order_relaxed) ||
               load_field(recording_->header->step) != step_.load(std::memory_order_relaxed);
    }
    Marks choose_otherwise(uint64_t number);
    void begin_unit(uint64_t number);
    void add_ended(uint64_t number, uint64_t now);
    void set_limits(uint64_t number, int64_t step);
    void tell_light();
    void publish(uint64_t number);

    Recording* recording_;
    bool by_budget_;
    std::atomic<bool> refused_;
    std::atomic<int64_t> step_;         // of the unit, kNoStep none
    std::atomic<uint64_t> unit_end_;    // launches from this number on belong to another unit
    std::atomic<uint64_t> full_until_;  // launches below this number have full marks
    std::atomic<uint32_t> light_of_;    // one of so many others has light ones
    std::atomic<bool> any_light_;       // launches whose entries the ring holds have no full marks

    // The thread that begins a unit holds `busy_`: others that come meanwhile go on with the old limits.
    std::atomic<bool> busy_;
    Budget budget_;
    uint64_t unit_first_;
    uint64_t unit_ticks_;
    uint64_t newest_light_;   // an upper bound of the newest launch without full marks
    uint64_t newest_unseen_;  // and without any
};

}  // namespace titan::tracer
