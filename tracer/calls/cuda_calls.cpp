// The cold calls of CUDA: contexts that end, and the names of kernels, asked from the driver at their first launch.
#include <optional>

#include "bindings.h"
#include "gpu_contexts.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/context_end.h"
#include "tracer/record.h"

namespace titan::tracer {

ContextEnd::ContextEnd(const EndingContexts& ending) : ending_(ending) {
    Session* const current = session();
    if (current == nullptr || !current->gpu_progress.active()) {
        return;
    }
    const DriverApi& driver = current->driver;
    if (ending_.how != EndingContexts::How::kDestroyed && ending_.device == kCurrentDevice &&
        driver.ctx_get_device != nullptr) {
        driver.ctx_get_device(&ending_.device);
    }
    held_ = true;
    quiet_ = current->gpu_progress.hold();
}

ContextEnd::~ContextEnd() {
    // The tracer's memory stays, so a session that is over for this process (fork) is the only other case.
    if (Session* const current = session(); held_ && current != nullptr) {
        current->gpu_progress.release(ending_, quiet_);
    }
}

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
