// Frees the names for now (string_table.h) that no record refers to any more. cold, watch thread.
#pragma once

#include <cstdint>

#include "session.h"
#include "watch.h"

namespace titan::tracer {

// A name is freed when it was in no record and was not used, twice in a row: a thread that has just interned it has
// written its record by then.
inline constexpr uint64_t kLooksApartNs = kSoonNs;
struct NameSweep {
    uint64_t looked_ns;   // monotonic, 0 not yet
    uint64_t names_left;  // names left after the last sweep
    bool half_done;       // the first look is done
    uint64_t unused[kStringRows / 64];
};

// Once the names for now take a quarter of their share, and an eighth more than after the last sweep. To be called each
// second; true where it should be called again in kLooksApartNs.
bool poll_names(Session& session, NameSweep& sweep, uint64_t now_ns);

}  // namespace titan::tracer
