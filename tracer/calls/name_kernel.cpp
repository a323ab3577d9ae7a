// The name of a kernel, asked from the driver at its first launch. cold.
#include <optional>

#include "bindings.h"
#include "gpu_contexts.h"
#include "learn_driver.h"
#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

void name_kernel(FunctionKind kind, const void* function, const void* real) {
    const Thread* const thread = this_thread();
    Session& session = *thread->session;
    char text[kMaxStringBytes + 1];
    std::optional<RelaxedCapture> relaxed;
    if (learn_driver(session)) {
        relaxed.emplace(session.driver);
    }
    uint32_t name = find_kernel_name(kind, function, real, text, sizeof(text)) ? session.strings.intern(text) : 0;
    relaxed.reset();
    if (name == 0) {
        // Nobody knows it: not asked again, until the handle means something else.
        name = load_field(thread->record->call);
    }
    session.kernel_names.remember(function, name);
    if (format::StreamWorkEntry* const entry = session.stream_work.find(thread->work_ticket); entry != nullptr) {
        store_field(entry->name, name);
    }
}

}  // namespace

[[gnu::cold]] int leave_unnamed(int result, FunctionKind kind, const void* function, const void* real) {
    if (result == kCudaSuccess) {
        name_kernel(kind, function, real);
    }
    return leave_work(result);
}

}  // namespace titan::tracer
