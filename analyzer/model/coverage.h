// How much of a process's work on the GPU is on record.
#pragma once

#include <cstdint>

namespace titan::analyzer {

// The recording of a process's streams as a whole.
struct StreamCoverage {
    uint64_t recorded = 0;     // pieces of stream work that got an entry, also those that are overwritten
    uint64_t overwritten = 0;  // may hide what is ahead of an old call
    uint64_t torn = 0;
    uint64_t launches = 0;  // pieces that the living threads handed over, recorded or not
    int64_t oldest_ns = 0;  // time of the oldest piece still in the ring
    bool sampled = false;   // not every piece is recorded; events and graph launches always are
    bool cut = false;       // more were unfinished than are kept here
    // All waits between streams that were made since `ns` are seen.
    bool waits_since(int64_t ns) const {
        return recorded != 0 && !cut && torn == 0 && (overwritten == 0 || oldest_ns <= ns);
    }
    // And all work.
    bool complete_since(int64_t ns) const { return waits_since(ns) && !sampled; }
};

// What the recorder's budget allowed it to observe of the GPU, at the end of the record.
struct Observing {
    uint32_t budget = 0;         // millionths of the time; 0: the method was chosen by hand
    uint32_t full_of = 0;        // one step of n has stream writes, 0 none; other launches have events
    uint32_t light_of = 0;       // and of these one of n
    uint32_t unit_launches = 0;  // of a step, the mean of the last ones
    int64_t unit_ns = 0;
};

}  // namespace titan::analyzer
