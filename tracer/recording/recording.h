// The record of one process: the mapped ring, its typed parts, and the names that it refers to. The writers lie above
// (session.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic_field.h"
#include "call_sites.h"
#include "config.h"
#include "formats/layout/ring_layout.h"
#include "identity.h"
#include "kernel_names.h"
#include "labels.h"
#include "marker_sites.h"
#include "open_spans.h"
#include "ring.h"
#include "ring_file.h"
#include "string_table.h"
#include "tracer/driver_api.h"
#include "tracer/record.h"

namespace titan::tracer {

struct Recording {
    Config config;
    Identity identity;
    RingFile ring_file;

    format::RingHeader* header;
    Ring<format::CollectiveEntry> collectives;
    Ring<format::CudaCallEntry> cuda_calls;
    Ring<format::StreamWorkEntry> stream_work;
    Ring<format::ChannelEntry> channels;
    Ring<format::MarkerEntry> markers;
    OpenSpans open_spans;
    MarkerSites marker_sites;
    uint64_t marker_sites_used;
    Labels labels;
    uint64_t labels_used;
    Ring<format::HealthEntry> readings;  // of the machine
    StringTable strings;
    StringState string_states[kStringRows];
    CallSites call_sites;
    format::ThreadRecord* threads;
    uint64_t thread_rows;
    DriverApi driver;                // see learn_driver
    std::atomic<bool> driver_known;  // `driver` is filled in
    std::atomic<bool> driver_asked;  // a thread is filling it in, or has
    uint32_t api_names[kMaxApis];    // string id of each function's name
    KernelNames kernel_names;
};

// hot, any-thread, signal-safe.
inline void count_loss(Recording& recording, format::Loss loss) {
    std::atomic_ref(recording.header->losses[static_cast<size_t>(loss)]).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace titan::tracer
