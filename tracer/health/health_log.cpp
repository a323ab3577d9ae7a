#include "health_log.h"

#include <cmath>

#include "base/clock.h"

namespace titan::tracer {

HealthLog::Known* HealthLog::find(uint32_t name) {
    for (uint32_t i = 0; i < count_; ++i) {
        if (known_[i].name == name) {
            return &known_[i];
        }
    }
    if (count_ == kMostNames) {
        return nullptr;
    }
    Known& known = known_[count_++];
    known = Known{};
    known.name = name;
    return &known;
}

void HealthLog::note(const char* name, double value, double noise) {
    const uint32_t id = recording_->strings.intern(name);
    Known* const known = id == 0 ? nullptr : find(id);
    if (known == nullptr) {
        return;  // more devices and ports than a node has
    }
    const bool is_first = !known->is_written;
    // An entry that would soon be overwritten is written again.
    const bool is_old = !is_first && recording_->readings.head() - known->ticket > recording_->readings.slots() / 2;
    const bool is_other = is_first || std::fabs(value - known->value) > noise;
    const uint64_t now = now_ticks();
    if (is_other) {
        known->value = value;
        known->since_ticks = now;
        known->since_step = load_field(recording_->header->step);
        known->first_value = is_first ? value : known->first_value;
    }
    if (is_other || is_old) {
        write(*known, now);
    }
}

void HealthLog::write(Known& known, uint64_t now_ticks) {
    known.is_written = true;
    known.ticket = recording_->readings.claim();
    format::HealthEntry& entry = recording_->readings.begin(known.ticket);
    store_field(entry.ticks, now_ticks);
    store_field(entry.since_ticks, known.since_ticks);
    store_field(entry.since_step, known.since_step);
    store_field(entry.value, known.value);
    store_field(entry.first_value, known.first_value);
    store_field(entry.name, known.name);
    recording_->readings.publish(entry, known.ticket);
}

}  // namespace titan::tracer
