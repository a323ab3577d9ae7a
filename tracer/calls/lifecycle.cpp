#include "cold_calls.h"

#include "base/text.h"
#include "cold_lock.h"
#include "communicators.h"
#include "session.h"
#include "watch.h"

namespace titan::tracer {

namespace {

using format::OpKind;

constexpr uint64_t kAbortSnapshotWaitNs = 1'000'000'000;

}  // namespace

Communicator* learn_communicator(Session& session, const void* handle, OpKind kind, uint64_t now) {
    if (ends_communicator(kind)) {
        return nullptr;
    }
    Communicator* const created = session.communicators.find_created(handle);
    const ColdLock lock;
    if (!lock) {
        return nullptr;
    }
    Communicator* communicator = session.communicators.find(handle);
    if (communicator != nullptr) {
        return communicator;
    }
    communicator = created != nullptr && created->pending_result.load() != nullptr ? created : nullptr;
    if (communicator == nullptr) {
        count_loss(session, format::Loss::kUnknownCommunicators);
        communicator = session.communicators.add(session, CreateArgs{.kind = OpKind::kCommInit},
                                                 reinterpret_cast<uint64_t>(handle), now);
    }
    if (communicator != nullptr) {
        session.communicators.bind(*communicator, handle);
        store_field(communicator->record->ready_ticks, now);
        store_field(communicator->record->state, format::CommState::kLive);
    }
    return communicator;
}

void note_lifecycle_entered(Session& session, Communicator& communicator, OpKind kind, uint64_t now) {
    if (!ends_communicator(kind)) {
        return;
    }
    if (kind == OpKind::kCommAbort && session.gpu_progress.unfinished(communicator)) {
        char detail[96];
        format_text(detail, sizeof(detail), "ncclCommAbort with unfinished calls on communicator %016llx",
                    static_cast<unsigned long long>(communicator.record->id));
        request_dump(format::DumpReason::kAbort, detail);
        wait_for_snapshot(kAbortSnapshotWaitNs);  // the abort itself will change what we want to show
    }
    session.communicators.forget(communicator);
    store_field(communicator.record->closed_ticks, now);
}

void note_lifecycle_left(Communicator& communicator, OpKind kind, int result) {
    if (is_error(result)) {
        return;
    }
    format::CommState state;
    switch (kind) {
        case OpKind::kCommFinalize: state = format::CommState::kFinalized; break;
        case OpKind::kCommDestroy: state = format::CommState::kDestroyed; break;
        case OpKind::kCommAbort: state = format::CommState::kAborted; break;
        default: return;
    }
    store_field(communicator.record->state, state);
}

}  // namespace titan::tracer
