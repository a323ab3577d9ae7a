// titan_dump() of titantrace.h: the program asks for a dump. cold, any-thread.
#define TITAN_IN_TRACER
#include "session.h"
#include "titantrace.h"
#include "watch.h"

namespace {

constexpr uint64_t kDumpWaitNs = 10'000'000'000;

}  // namespace

int titan_dump(const char* reason) {
    if (titan::tracer::session() == nullptr) {
        return -1;
    }
    titan::tracer::request_dump(titan::format::DumpReason::kApi, reason != nullptr ? reason : "");
    return titan::tracer::wait_for_dump(kDumpWaitNs) ? 0 : -1;
}
