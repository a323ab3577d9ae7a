// Puts the native places that call markers into words, "0xOFFSET BUILDID MODULE", which are of use also to readers that
// have nothing of the process but its ring. cold, watch thread.
#pragma once

#include <cstdint>

#include "session.h"

namespace titan::tracer {

// Once there are more places than `looked_at`.
void name_marker_sites(Session& session, uint64_t& looked_at);

}  // namespace titan::tracer
