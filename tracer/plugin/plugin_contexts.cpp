#include "plugin_contexts.h"

#include "base/clock.h"
#include "base/hash.h"
#include "cold_calls.h"
#include "cold_lock.h"

namespace titan::tracer {

namespace {

using format::CommState;

constexpr uint32_t kContexts = 1024;  // one for each row for communicators
constexpr unsigned kIndexBits = 10;
static_assert(kContexts == 1u << kIndexBits);

constinit PluginContext contexts[kContexts]{};

constexpr uint64_t kIdentitySalt = 0x7469'7461'6e70'6c75;

bool in_use(const PluginContext& context, const Session& session) {
    return context.generation.load(std::memory_order_acquire) % 2 == 1 &&
           context.session.load(std::memory_order_relaxed) == &session;
}

// All members are given the same hash and size, and so agree on this identity without communicating.
uint64_t identity_of(uint64_t hash, int size) {
    if (hash == 0) {
        return 0;  // derived like that of any communicator whose creation was not seen
    }
    uint64_t id = (hash ^ kIdentitySalt) * kHashMultiplier;
    id = ((id ^ id >> 32) + static_cast<uint64_t>(static_cast<uint32_t>(size))) * kHashMultiplier;
    id ^= id >> 32;
    return id != 0 ? id : 1;
}

int wanted_of(const Session& session, const PluginContext& context) {
    const bool unseen =
        context.own.load(std::memory_order_relaxed) || context.communicator.load(std::memory_order_relaxed) == nullptr;
    const bool progress = session.config.nccl_plugin == NcclPluginMode::kProgress;
    return (unseen ? context.facts.calls_mask : 0) | (progress ? context.facts.progress_mask : 0);
}

// NCCL keeps one mask for all communicators: it gets what any of them needs. Under the cold lock.
void settle_mask(const Session& session, int* mask) {
    int wanted = 0;
    for (const PluginContext& context : contexts) {
        if (in_use(context, session) && context.facts.mask == mask) {
            wanted |= wanted_of(session, context);
        }
    }
    std::atomic_ref(*mask).store(wanted, std::memory_order_relaxed);
}

bool is_joined_locked(const Session& session, const Communicator& communicator) {
    for (const PluginContext& context : contexts) {
        if (in_use(context, session) && context.communicator.load(std::memory_order_relaxed) == &communicator) {
            return true;
        }
    }
    return false;
}

void join_locked(Session& session, PluginContext& context, Communicator& communicator) {
    context.communicator.store(&communicator, std::memory_order_release);
    if (context.facts.hash != 0) {
        store_field(communicator.record->nccl_hash, context.facts.hash);
    }
    settle_mask(session, context.facts.mask);
}

// The id of the communicator that the calling thread is just creating through a wrapper, 0 for none.
uint64_t created_by(Thread& thread) {
    if (thread.inside == 0 || thread.record->ticket == 0) {
        return 0;
    }
    const format::CollectiveEntry* const entry = thread.session->collectives.find(thread.record->ticket - 1);
    return entry != nullptr ? entry->related_id : 0;
}

// The one communicator that a wrapper is creating and that this may be: NCCL may create it on a thread of its own.
Communicator* being_created(Session& session, const PluginContext& context, uint64_t id) {
    Communicator* found = nullptr;
    for (uint32_t i = 0; i < Communicators::kMaxRows; ++i) {
        Communicator& communicator = session.communicators.at(i);
        if (communicator.record == nullptr) {
            break;
        }
        const format::CommunicatorRecord& record = *communicator.record;
        if (load_field(communicator.record->state) != CommState::kCreating || (id != 0 && record.id != id) ||
            !may_be(context, record) || is_joined_locked(session, communicator)) {
            continue;
        }
        if (found != nullptr) {
            return nullptr;  // more than one: its first call will tell
        }
        found = &communicator;
    }
    return found;
}

// A living communicator of the wrappers' that has not been joined, and might be this one.
bool may_be_a_known_one(Session& session, const PluginContext& context) {
    for (uint32_t i = 0; i < Communicators::kMaxRows; ++i) {
        Communicator& communicator = session.communicators.at(i);
        if (communicator.record == nullptr) {
            return false;
        }
        if (is_living(*communicator.record) && may_be(context, *communicator.record) &&
            !is_joined_locked(session, communicator)) {
            return true;
        }
    }
    return false;
}

PluginContext* take_context(Session& session, const PluginComm& facts) {
    for (PluginContext& context : contexts) {
        if (in_use(context, session)) {
            continue;  // a session that a forked child inherited does not count
        }
        context.session.store(&session, std::memory_order_relaxed);
        context.communicator.store(nullptr, std::memory_order_relaxed);
        context.own.store(false, std::memory_order_relaxed);
        // NCCL's string lives no longer than its call.
        store_field(context.name, session.strings.intern_for_now(facts.name));
        context.facts = facts;
        context.facts.name = nullptr;
        const uint64_t generation = context.generation.load(std::memory_order_relaxed);
        context.generation.store((generation + 1) | 1, std::memory_order_release);
        return &context;
    }
    return nullptr;
}

}  // namespace

PluginContext* context_of(PluginHandle handle, const Session& session) {
    if (kind_of(handle, session) != HandleKind::kComm) {
        return nullptr;
    }
    PluginContext& context = contexts[value_of(handle) % kContexts];
    const uint64_t generation = context.generation.load(std::memory_order_acquire);
    const bool same = (generation << kIndexBits & kHandleValueMask) >> kIndexBits == value_of(handle) >> kIndexBits;
    return same && in_use(context, session) ? &context : nullptr;
}

bool may_be(const PluginContext& context, const format::CommunicatorRecord& record) {
    const auto agree = [](int ours, int theirs) { return ours < 0 || theirs < 0 || ours == theirs; };
    const bool other_hash = context.facts.hash != 0 && record.nccl_hash != 0 && context.facts.hash != record.nccl_hash;
    return !other_hash && agree(context.facts.size, record.size) && agree(context.facts.rank, record.rank);
}

bool is_living(const format::CommunicatorRecord& record) {
    const CommState state = load_field(record.state);
    return state == CommState::kCreating || state == CommState::kLive;
}

bool is_joined(const Session& session, const Communicator& communicator) {
    const ColdLock lock;
    return lock && is_joined_locked(session, communicator);
}

void join_context(Session& session, PluginContext& context, Communicator& communicator) {
    const ColdLock lock;
    if (lock && context.communicator.load(std::memory_order_relaxed) == nullptr) {
        join_locked(session, context, communicator);
    }
}

Communicator* own_communicator(Session& session, PluginContext& context, const PluginCall& call) {
    Communicator* made = nullptr;
    {
        const ColdLock lock;
        if (Communicator* const known = context.communicator.load(std::memory_order_relaxed); known != nullptr) {
            return known;
        }
        const uint64_t now = now_ticks();
        const uint64_t hash = call.hash != 0 ? call.hash : context.facts.hash;
        const CreateArgs args{.kind = format::OpKind::kCommInit,
                              .size = context.facts.size,
                              .rank = context.facts.rank >= 0 ? context.facts.rank : call.rank,
                              .known_id = identity_of(hash, context.facts.size),
                              .nccl_hash = hash};
        made = lock ? session.communicators.add(session, args, now, now) : nullptr;
        if (made == nullptr) {
            count_loss(session, format::Loss::kCommunicatorsUntracked);
            return nullptr;
        }
        format::CommunicatorRecord& record = *made->record;
        store_field(record.name, context.name != 0 ? context.name : session.strings.intern_for_now(call.comm_name));
        store_field(record.create_result, 0);
        store_field(record.ready_ticks, now);
        store_field(record.state, CommState::kLive);
        session.communicators.bind(*made, &context);
        context.own.store(true, std::memory_order_relaxed);
        join_locked(session, context, *made);
    }
    on_member_ready(session, *made);
    return made;
}

void each_context_name(void (*visit)(void* argument, uint32_t name), void* argument) {
    for (PluginContext& context : contexts) {
        visit(argument, load_field(context.name));
    }
}

const void* key_of(const PluginContext& context) {
    const Communicator* const communicator = context.communicator.load(std::memory_order_acquire);
    return communicator != nullptr ? reinterpret_cast<const void*>(communicator->record->pointer) : nullptr;
}

PluginHandle plugin_comm_opened(const PluginComm& comm) {
    Thread* const thread = attached_thread(MayStart::kAlways);
    if (thread == nullptr || thread->session->config.nccl_plugin == NcclPluginMode::kOff) {
        return 0;
    }
    Session& session = *thread->session;
    PluginContext* context = nullptr;
    bool nobody = false;  // no wrapper can have seen it
    {
        const ColdLock lock;
        context = lock ? take_context(session, comm) : nullptr;
        if (context == nullptr) {
            count_loss(session, format::Loss::kChannelsDropped);
            return 0;
        }
        if (Communicator* const found = being_created(session, *context, created_by(*thread)); found != nullptr) {
            join_locked(session, *context, *found);
        } else {
            nobody = comm.hash != 0 && thread->inside == 0 && !may_be_a_known_one(session, *context);
        }
        settle_mask(session, comm.mask);
    }
    if (nobody) {
        own_communicator(session, *context, {});
    }
    const uint64_t index = static_cast<uint64_t>(context - contexts);
    return make_handle(HandleKind::kComm, session,
                       context->generation.load(std::memory_order_relaxed) << kIndexBits | index);
}

void plugin_comm_closed(PluginHandle handle) {
    Session* const current = session();
    PluginContext* const context = current != nullptr ? context_of(handle, *current) : nullptr;
    if (context == nullptr) {
        return;
    }
    Communicator* const communicator = context->communicator.load(std::memory_order_relaxed);
    if (communicator != nullptr && context->own.load(std::memory_order_relaxed)) {
        current->communicators.forget(*communicator);
        store_field(communicator->record->closed_ticks, now_ticks());
        store_field(communicator->record->state, CommState::kDestroyed);
    }
    int* const mask = context->facts.mask;
    context->generation.fetch_add(1, std::memory_order_release);
    // NCCL closes its plugin in an abort, too, which waits for nobody: the mask is then settled with the next
    // communicator.
    if (const ColdLock lock(ColdLock::Wait::kNone); lock) {
        settle_mask(*current, mask);
    }
}

}  // namespace titan::tracer
