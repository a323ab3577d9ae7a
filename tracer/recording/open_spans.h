// The spans of the process that are open, by id: any thread may end any of them. hot, any-thread: no lock.
//
// A row is taken by one thread, filled in, and found by others once its id is there. Ids count up; an id whose row is
// still taken by a long span is passed over.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic_field.h"
#include "formats/layout/ring_layout.h"

namespace titan::tracer {

class OpenSpans {
  public:
    constexpr OpenSpans() = default;
    // `count` is a power of two.
    OpenSpans(format::OpenSpanRecord* rows, uint64_t count) : rows_(rows), mask_(static_cast<uint32_t>(count - 1)) {}

    // A number that no span has, for an event. Once in 2^32 it is 0, which means none.
    uint32_t next_id() { return std::atomic_ref(last_id_).fetch_add(1, std::memory_order_relaxed) + 1; }

    // `span` without an id. The id; 0: all rows that were looked at are taken.
    uint32_t open(const format::OpenSpanRecord& span) {
        for (uint32_t tries = 0; tries < kMaxTries; ++tries) {
            const uint32_t id = next_id();
            format::OpenSpanRecord& row = rows_[id & mask_];
            const std::atomic_ref<uint32_t> taken(row.taken);
            if (id == 0 || taken.load(std::memory_order_relaxed) != 0 ||
                taken.exchange(1, std::memory_order_acquire) != 0) {
                continue;
            }
            store_field(row.begin_ticks, span.begin_ticks);
            store_field(row.task, span.task);
            store_field(row.name, span.name);
            store_field(row.parent, span.parent);
            store_field(row.thread, span.thread);
            store_field(row.site, span.site);
            std::atomic_ref(row.id).store(id, std::memory_order_release);
            return id;
        }
        return 0;
    }

    bool is_open(uint32_t id) const {
        return std::atomic_ref(rows_[id & mask_].id).load(std::memory_order_acquire) == id;
    }

    // The span that owns the row, while it is open.
    struct Owner {
        uint64_t task;
        uint32_t thread;
    };
    Owner owner_of(uint32_t id) const {
        format::OpenSpanRecord& row = rows_[id & mask_];
        return {load_field(row.task), load_field(row.thread)};
    }

    struct Begun {
        uint64_t ticks;
        uint32_t name;
    };

    // Forgets the span, and tells what it was. False: it is not open, or somebody else has just ended it.
    bool close(uint32_t id, Begun& begun) {
        format::OpenSpanRecord& row = rows_[id & mask_];
        uint32_t wanted = id;
        if (!is_open(id)) {
            return false;
        }
        begun = {load_field(row.begin_ticks), load_field(row.name)};
        if (!std::atomic_ref(row.id).compare_exchange_strong(wanted, 0, std::memory_order_acq_rel)) {
            return false;
        }
        std::atomic_ref(row.taken).store(0, std::memory_order_release);
        return true;
    }

    // For the sweep of names: names of rows that are taken. One that is being filled in has a name that was used a
    // moment ago.
    template <typename Visit>
    void each_name(Visit&& visit) const {
        for (uint64_t row = 0; row <= mask_ && rows_ != nullptr; ++row) {
            if (load_field(rows_[row].taken) != 0) {
                visit(load_field(rows_[row].name));
            }
        }
    }

  private:
    static constexpr uint32_t kMaxTries = 16;

    format::OpenSpanRecord* rows_ = nullptr;
    uint32_t mask_ = 0;
    uint32_t last_id_ = 0;
};

}  // namespace titan::tracer
