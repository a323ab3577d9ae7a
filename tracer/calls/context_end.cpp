#include "tracer/context_end.h"

#include "session.h"

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

}  // namespace titan::tracer
