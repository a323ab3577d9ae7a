#include "thread_state.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "threads_table.h"

namespace titan::tracer {

namespace {

// initial-exec: the library is in the process from its start, so the access is one instruction and never allocates.
__attribute__((tls_model("initial-exec"))) thread_local Thread* this_thread = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local bool thread_is_ours = false;

Thread* attach(Session& session) {
    if (thread_is_ours) {
        return nullptr;
    }
    this_thread = take_thread(session);
    return this_thread;
}

}  // namespace

Thread* attached_thread(bool may_start) {
    Session* current = session();
    if (current == nullptr) [[unlikely]] {
        current = may_start ? start_session() : nullptr;
        if (current == nullptr) {
            return nullptr;
        }
    }
    Thread* thread = this_thread;
    if (thread == nullptr || thread->session != current) [[unlikely]] {
        thread = attach(*current);
        if (thread == nullptr) {
            return nullptr;
        }
    }
    return thread->nested == 0 ? thread : nullptr;
}

Thread* attached_thread_for_marker() {
    Session* current = session();
    if (current == nullptr) [[unlikely]] {
        current = start_session_of_rank();
        if (current == nullptr) {
            return nullptr;
        }
    }
    if (this_thread == nullptr || this_thread->session != current) [[unlikely]] {
        return attach(*current);
    }
    return this_thread;
}

void mark_thread_as_ours() { thread_is_ours = true; }

void forget_this_thread() { this_thread = nullptr; }

}  // namespace titan::tracer
