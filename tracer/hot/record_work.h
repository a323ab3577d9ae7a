// One entry of the stream work ring. hot.
#pragma once

#include <cstdint>

#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

// `flags` are format::StreamWorkFlags. Returns the entry's ticket.
uint64_t write_work(Thread& thread, uint16_t api, const StreamWork& work, uint8_t flags, uint64_t now);

}  // namespace titan::tracer
