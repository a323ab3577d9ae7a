#include "thread_state.h"

#include <errno.h>

#include "own_thread.h"
#include "threads_table.h"

namespace titan::tracer {

namespace {

constinit Thread nobody{};

}  // namespace

constinit __attribute__((tls_model("initial-exec"))) thread_local Nesting* this_nesting = &nobody;

namespace {

constinit Starters starters{};

Session* session_for(MayStart may_start) {
    Session* const current = session();
    if (current != nullptr || may_start == MayStart::kNever) {
        return current;
    }
    Session* (*const start)() = may_start == MayStart::kAlways ? starters.always : starters.of_rank;
    const int saved_errno = errno;
    Session* const started = start != nullptr ? start() : nullptr;
    errno = saved_errno;
    return started;
}

}  // namespace

Thread* attach_thread(MayStart may_start) {
    if (is_own_thread()) {
        return nullptr;
    }
    Session* const current = session_for(may_start);
    if (current == nullptr) {
        return nullptr;
    }
    if (this_thread()->session != current) {
        Thread* const taken = take_thread(*current);
        this_nesting = taken != nullptr ? taken : &nobody;
    }
    return this_thread() != &nobody ? this_thread() : nullptr;
}

void set_starters(const Starters& given) { starters = given; }

void forget_this_thread() { this_nesting = &nobody; }

}  // namespace titan::tracer
