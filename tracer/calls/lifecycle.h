// A communicator's own story, told by the calls on it: first seen, closed, ended. cold, any-thread.
#pragma once

#include <cstdint>

#include "communicators.h"

namespace titan::tracer {

constexpr bool ends_communicator(format::OpKind kind) {
    return kind == format::OpKind::kCommDestroy || kind == format::OpKind::kCommAbort;
}

// The first call on a handle that enter_create did not learn (a group, a non-blocking split, or out of our sight). Null
// when there are too many communicators, and for a call that ends one, which waits for nobody.
[[gnu::cold]] Communicator* learn_communicator(Session& session, const void* handle, format::OpKind kind, uint64_t now);

// note_lifecycle_entered comes before the real call: after a destroy, NCCL may reuse the address at once.
[[gnu::cold]] void note_lifecycle_entered(Session& session, Communicator& communicator, format::OpKind kind,
                                          uint64_t now);
[[gnu::cold]] void note_lifecycle_left(Communicator& communicator, format::OpKind kind, int result);

}  // namespace titan::tracer
