#include "thread_state.h"

#include "start_session.h"
#include "threads_table.h"

namespace titan::tracer {

namespace {

constinit Thread nobody{};

}  // namespace

constinit __attribute__((tls_model("initial-exec"))) thread_local Nesting* this_nesting = &nobody;

namespace {

constinit __attribute__((tls_model("initial-exec"))) thread_local bool thread_is_ours = false;

Session* session_for(MayStart may_start) {
    Session* const current = session();
    if (current != nullptr || may_start == MayStart::kNever) {
        return current;
    }
    return may_start == MayStart::kAlways ? start_session() : start_session_of_rank();
}

}  // namespace

Thread* attach_thread(MayStart may_start) {
    if (thread_is_ours) {
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

void mark_thread_as_ours() { thread_is_ours = true; }

void forget_this_thread() { this_nesting = &nobody; }

}  // namespace titan::tracer
