#include "outside_request.h"

#include <atomic>

#include "base/text.h"

namespace titan::tracer {
namespace {

constinit uint64_t seen_request = 0;

}  // namespace

void start_answering(format::RingHeader& header) {
    seen_request = std::atomic_ref(header.dump_request).load(std::memory_order_relaxed);
    std::atomic_ref(header.dump_answers).store(1, std::memory_order_release);
}

bool take_outside_request(format::RingHeader& header, uint64_t& request) {
    request = std::atomic_ref(header.dump_request).load(std::memory_order_acquire);
    if (request == seen_request) {
        return false;
    }
    seen_request = request;
    return request != 0;
}

void note_dump_begun(format::RingHeader& header) {
    std::atomic_ref(header.dumps_begun).fetch_add(1, std::memory_order_acq_rel);
}

// What a reader asks about next comes first: who sees that the dump has ended sees its path, and that it was written.
void note_dump_ended(format::RingHeader& header, const char* path) {
    if (path != nullptr) {
        std::atomic_ref(header.dumps_written).fetch_add(1, std::memory_order_relaxed);
    }
    if (path == nullptr || !copy_text(header.last_dump, sizeof(header.last_dump), path)) {
        header.last_dump[0] = '\0';
    }
    std::atomic_ref(header.dumps_ended).fetch_add(1, std::memory_order_release);
}

}  // namespace titan::tracer
