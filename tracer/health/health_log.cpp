#include "health_log.h"

#include <cmath>

#include "base/clock.h"

namespace titan::tracer {

// Null: more devices and ports than a node has.
HealthLog::Known* HealthLog::find(const char* name) {
    const uint32_t id = recording_->strings.intern(name);
    for (uint32_t i = 0; i < count_; ++i) {
        if (known_[i].name == id) {
            return &known_[i];
        }
    }
    if (id == 0 || count_ == kMostNames) {
        return nullptr;
    }
    Known& known = known_[count_++];
    known = Known{};
    known.name = id;
    return &known;
}

// From now on it is this.
void HealthLog::set(Known& known, double value, uint64_t now_ticks) const {
    known.value = value;
    known.since_ticks = now_ticks;
    known.since_step = load_field(recording_->header->step);
    known.first_value = known.is_written ? known.first_value : value;
}

// An entry that would soon be overwritten is written again.
bool HealthLog::is_old(const Known& known) const {
    return recording_->readings.head() - known.ticket > recording_->readings.slots() / 2;
}

void HealthLog::note(const char* name, double value, double noise) {
    Known* const known = find(name);
    if (known == nullptr) {
        return;
    }
    const bool is_first = !known->is_written;
    const bool is_other = is_first || std::fabs(value - known->value) > noise;
    const uint64_t now = now_ticks();
    if (is_other) {
        set(*known, value, now);
    }
    if (is_other || is_old(*known)) {
        write(*known, now);
    }
}

void HealthLog::note_event(const char* name) {
    Known* const known = find(name);
    if (known == nullptr) {
        return;
    }
    const uint64_t now = now_ticks();
    if (known->is_written) {
        ++known->value;
    } else {
        known->is_event = true;
        set(*known, 1, now);
    }
    write(*known, now);
}

void HealthLog::keep_events() {
    for (uint32_t i = 0; i < count_; ++i) {
        if (known_[i].is_event && is_old(known_[i])) {
            write(known_[i], now_ticks());
        }
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
