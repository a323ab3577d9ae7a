#include "communicators.h"

#include <string.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <new>

#include "base/hash.h"
#include "base/memory.h"
#include "cold_lock.h"

namespace titan::tracer {
namespace {

using format::CommState;
using format::OpKind;

constexpr size_t kUniqueIdBytes = 128;
constexpr size_t kMaxExcludedSorted = 512;

// 0 means "no communicator" in the format.
uint64_t never_zero(uint64_t id) { return id != 0 ? id : 1; }

uint64_t hash_unique_id(const void* unique_id) {
    uint64_t words[kUniqueIdBytes / sizeof(uint64_t)];
    memcpy(words, unique_id, sizeof(words));
    uint64_t hash = 0x7469'7461'6e74'7261;
    for (const uint64_t word : words) {
        hash = mix_hash(hash, word);
    }
    return never_zero(hash);
}

uint64_t child_id(uint64_t parent, OpKind kind, uint64_t ordinal, uint64_t discriminator) {
    return never_zero(mix_hash(mix_hash(mix_hash(parent, static_cast<uint64_t>(kind)), ordinal + 1), discriminator));
}

// The ranks left out, in order, as text for the record and as a hash for the identity.
struct ExcludedRanks {
    char text[kMaxStringBytes];
    uint64_t hash;
};

ExcludedRanks describe_excluded(const CreateArgs& args) {
    ExcludedRanks out{};
    int sorted[kMaxExcludedSorted];
    size_t count = 0;
    for (int i = 0; i < args.excluded_count && args.excluded != nullptr && count < kMaxExcludedSorted; ++i) {
        size_t at = count++;
        for (; at > 0 && sorted[at - 1] > args.excluded[i]; --at) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = args.excluded[i];
    }
    size_t length = 0;
    out.hash = static_cast<uint64_t>(args.excluded_count);
    for (size_t i = 0; i < count; ++i) {
        out.hash = mix_hash(out.hash, static_cast<uint64_t>(sorted[i]));
        const int written = snprintf(out.text + length, sizeof(out.text) - length, i == 0 ? "%d" : ",%d", sorted[i]);
        if (written > 0 && length + static_cast<size_t>(written) < sizeof(out.text)) {
            length += static_cast<size_t>(written);
        }
    }
    return out;
}

// The n-th shrink of this parent to the same member set. Ranks that were left out of other shrinks did not see those,
// so a plain count of shrinks would not agree between members.
uint32_t shrink_ordinal(Communicator& parent, uint64_t set_hash) {
    for (size_t i = 0; i < std::size(parent.shrink_sets); ++i) {
        if (parent.shrink_sets[i] == set_hash || parent.shrink_counts[i] == 0) {
            parent.shrink_sets[i] = set_hash;
            return parent.shrink_counts[i]++;
        }
    }
    return 0;
}

// Fills in identity and ordinal of a child from its parent.
void derive_from_parent(Recording& recording, Communicator& parent, const CreateArgs& args,
                        format::CommunicatorRecord& record) {
    record.parent_id = parent.record->id;
    record.parent_rank = parent.record->rank;
    record.device = parent.record->device;
    uint64_t discriminator = 0;
    switch (args.kind) {
        case OpKind::kCommSplit:
            record.ordinal = parent.splits++;
            discriminator = static_cast<uint64_t>(static_cast<uint32_t>(args.color));
            break;
        case OpKind::kCommShrink: {
            const ExcludedRanks excluded = describe_excluded(args);
            record.ordinal = shrink_ordinal(parent, excluded.hash);
            record.excluded = recording.strings.intern_for_now(excluded.text);
            record.size = parent.record->size > 0 ? parent.record->size - args.excluded_count : -1;
            discriminator = excluded.hash;
            break;
        }
        default:  // grow: existing ranks keep their rank
            record.ordinal = parent.grows++;
            record.rank = parent.record->rank;
            record.alias_id = parent.grow_alias;
            parent.grow_alias = 0;
            break;
    }
    record.id = child_id(record.parent_id, args.kind, record.ordinal, discriminator);
}

// `parent`: null where there is none.
void derive_identity(Recording& recording, Communicator* parent, const CreateArgs& args, uint64_t private_salt,
                     format::CommunicatorRecord& record) {
    if (args.known_id != 0) {
        record.id = args.known_id;
    } else if (parent != nullptr) {
        derive_from_parent(recording, *parent, args, record);
    } else if (args.unique_id != nullptr) {
        record.id = hash_unique_id(args.unique_id);
        if (args.kind == OpKind::kCommGrow) {
            record.id = child_id(record.id, args.kind, 0, 0);
        }
    } else {
        // No other process can know this one: either all its members are in this process, or we missed its creation.
        const uint64_t process =
            mix_hash(recording.identity.pid_start_ticks, static_cast<uint64_t>(recording.identity.pid));
        record.id = never_zero(mix_hash(mix_hash(process, private_salt), static_cast<uint64_t>(args.kind)));
        if (args.kind != OpKind::kCommInitAll) {
            record.flags |= format::kCommIdentityGuessed;
        }
    }
}

// NCCL's own layout up to the last field that we read. interpose/wrappers/nccl_wrappers.cpp asserts it against nccl.h.
struct ConfigPrefix {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char* net_name;
    int split_share;
    int traffic_class;
    const char* comm_name;
};

constexpr unsigned kMagic = 0xcafebeef;
constexpr unsigned kFirstVersionWithName = 22700;

struct NcclConfig {
    bool nonblocking;
    const char* name;  // commName, null when absent; owned by the program
};

// The two fields of ncclConfig_t that say something about a communicator, read without trusting that the program and
// this library were built with the same nccl.h: only fields that lie below the structure's own `size`, and none if its
// magic number is not NCCL's. `config` may be null. Layout: nccl.h, ncclConfig_v21700 (2.17) and later; NCCL only ever
// appends to it.
NcclConfig read_nccl_config(const void* config) {
    NcclConfig out{};
    const auto* const prefix = static_cast<const ConfigPrefix*>(config);
    if (prefix == nullptr || prefix->size < offsetof(ConfigPrefix, cga_cluster_size) || prefix->magic != kMagic) {
        return out;
    }
    out.nonblocking = prefix->blocking == 0;
    const bool has_name = prefix->size >= offsetof(ConfigPrefix, comm_name) + sizeof(prefix->comm_name);
    if (has_name && prefix->version >= kFirstVersionWithName) {
        out.name = prefix->comm_name;
    }
    return out;
}

}  // namespace

void Communicators::start(format::CommunicatorRecord* records, uint32_t rows, format::RegionCursor& cursor,
                          uint64_t* p2p_heap, uint64_t p2p_counters, format::RegionCursor& p2p_cursor) {
    records_ = records;
    row_count_ = rows < kMaxRows ? rows : kMaxRows;
    cursor_ = &cursor;
    p2p_heap_ = p2p_heap;
    p2p_counters_ = p2p_counters;
    p2p_cursor_ = &p2p_cursor;
}

Communicator* Communicators::free_row() {
    if (used_rows_ < row_count_) {
        return &rows_[used_rows_++];
    }
    // Every row was used once: reuse the one that has been closed for longest. Old entries that point to it are told
    // apart by their communicator id.
    Communicator* oldest = nullptr;
    for (uint32_t i = 0; i < row_count_; ++i) {
        const auto state = load_field(rows_[i].record->state);
        const bool closed =
            state == CommState::kDestroyed || state == CommState::kAborted || state == CommState::kFailed;
        if (closed && (oldest == nullptr ||
                       load_field(rows_[i].record->closed_ticks) < load_field(oldest->record->closed_ticks))) {
            oldest = &rows_[i];
        }
    }
    return oldest;
}

namespace {

// Takes an atomic load: the thread that closes a communicator holds no lock.
bool is_closed(format::CommunicatorRecord& record) { return load_field(record.closed_ticks) != 0; }

// Location of a communicator's counters in the heap; empty if it has none.
struct P2pBlock {
    uint64_t begin;
    uint64_t end;
    bool overlaps(uint64_t from, uint64_t to) const { return begin < to && from < end; }
};

P2pBlock block_of(const format::CommunicatorRecord& record) {
    if (record.p2p_offset_bytes == format::kNoSequence || record.size <= 0) {
        return {0, 0};
    }
    const uint64_t begin = record.p2p_offset_bytes / sizeof(uint64_t);
    return {begin, begin + 2 * static_cast<uint64_t>(record.size)};
}

}  // namespace

// The first gap between the blocks of the living, beginning behind what was given last: so those closed last keep
// theirs for longest. kNoSequence where there is none.
uint64_t Communicators::find_p2p_room(uint64_t counters) const {
    const uint64_t start = p2p_next_;
    uint64_t at = start;
    bool wrapped = false;
    while (!wrapped || at < start) {
        if (at + counters > p2p_counters_) {
            if (wrapped) {
                break;
            }
            wrapped = true;
            at = 0;
            continue;
        }
        uint64_t behind = 0;
        for (uint32_t i = 0; i < used_rows_; ++i) {
            const P2pBlock block = block_of(records_[i]);
            if (!is_closed(records_[i]) && block.overlaps(at, at + counters) && block.end > behind) {
                behind = block.end;
            }
        }
        if (behind == 0) {
            return at;
        }
        at = behind;
    }
    return format::kNoSequence;
}

void Communicators::take_from_closed(uint64_t begin, uint64_t end) {
    for (uint32_t i = 0; i < used_rows_; ++i) {
        if (is_closed(records_[i]) && block_of(records_[i]).overlaps(begin, end)) {
            rows_[i].p2p.store(nullptr, std::memory_order_relaxed);
            store_field(records_[i].p2p_offset_bytes, format::kNoSequence);
        }
    }
}

uint64_t* Communicators::take_p2p_counters(Communicator& communicator) {
    const ColdLock lock;
    if (!lock) {
        return nullptr;
    }
    format::CommunicatorRecord& record = *communicator.record;
    uint64_t* const found = communicator.p2p.load(std::memory_order_relaxed);
    if (found != nullptr || record.size <= 0 || is_closed(record) || communicator.p2p_refused_at == closed_ + 1) {
        return found;
    }
    const uint64_t counters = 2 * static_cast<uint64_t>(record.size);
    const uint64_t begin = find_p2p_room(counters);
    if (begin == format::kNoSequence) {
        communicator.p2p_refused_at = closed_ + 1;  // asked again once another one is closed
        return nullptr;
    }
    take_from_closed(begin, begin + counters);
    p2p_next_ = begin + counters;
    memset(p2p_heap_ + begin, 0, counters * sizeof(uint64_t));
    if (p2p_next_ * sizeof(uint64_t) > p2p_cursor_->head) {
        std::atomic_ref(p2p_cursor_->head).store(p2p_next_ * sizeof(uint64_t), std::memory_order_relaxed);
    }
    store_field(record.p2p_offset_bytes, begin * sizeof(uint64_t));
    communicator.p2p.store(p2p_heap_ + begin, std::memory_order_release);
    return p2p_heap_ + begin;
}

Communicator* Communicators::add(Recording& recording, const CreateArgs& args, uint64_t private_salt, uint64_t now) {
    Communicator* const communicator = free_row();
    if (communicator == nullptr) {
        return nullptr;
    }
    const uint32_t index = static_cast<uint32_t>(communicator - rows_);
    format::CommunicatorRecord& record = records_[index];
    std::atomic_ref(record.published).store(0, std::memory_order_release);
    new (communicator) Communicator{};
    format::CommunicatorRecord created{};
    created.origin = args.kind;
    created.state = CommState::kCreating;
    created.created_ticks = now;
    created.size = args.size;
    created.rank = args.rank;
    created.device = -1;
    created.parent_rank = -1;
    created.color = args.color;
    created.key = args.key;
    created.create_result = -1;
    created.create_thread = static_cast<uint32_t>(gettid());
    created.nccl_hash = args.nccl_hash;
    created.flags = args.scalable ? format::kCommScalable : 0;
    communicator->record = &record;
    communicator->index = index;
    communicator->queries = args.queries;
    const NcclConfig config = read_nccl_config(args.config);
    if (config.nonblocking) {
        created.flags |= format::kCommNonblocking;
        communicator->call_flags = format::kNonblockingComm;
    }
    derive_identity(recording, args.parent != nullptr ? find(args.parent) : nullptr, args, private_salt, created);
    created.name = recording.strings.intern_for_now(config.name);
    communicator->incomplete.store(created.size < 0 || created.rank < 0, std::memory_order_relaxed);
    created.p2p_offset_bytes = format::kNoSequence;
    record = created;
    std::atomic_ref(cursor_->head).store(used_rows_, std::memory_order_relaxed);
    std::atomic_ref(record.published).store(1, std::memory_order_release);
    return communicator;
}

void Communicators::bind(Communicator& communicator, const void* handle) {
    communicator.pending_result = nullptr;
    store_field(communicator.record->pointer, reinterpret_cast<uint64_t>(handle));
    bool full = false;
    by_handle_.set(handle, &communicator, full);
}

Communicator* Communicators::find_created(const void* handle) {
    for (uint32_t i = 0; i < used_rows_; ++i) {
        void** const pending = rows_[i].pending_result;
        if (pending == nullptr) {
            continue;
        }
        // The program owns that memory and may have given it up: read it through the kernel, which says so.
        const void* stored = nullptr;
        Memory own;
        const bool there = open_memory(getpid(), own) == 0 && own.get(reinterpret_cast<uint64_t>(pending), stored);
        close_memory(own);
        if (there && stored == handle) {
            return &rows_[i];
        }
    }
    return nullptr;
}

void Communicators::forget(Communicator& communicator) {
    ++closed_;
    by_handle_.forget(reinterpret_cast<const void*>(communicator.record->pointer));
}

void complete_communicator(Communicator& communicator) {
    const CommQueries* const queries = communicator.queries;
    const void* const handle = reinterpret_cast<const void*>(communicator.record->pointer);
    if (queries == nullptr || handle == nullptr) {
        return;
    }
    int size = -1;
    int rank = -1;
    int device = -1;
    if (queries->size(handle, &size) != 0 || queries->rank(handle, &rank) != 0) {
        return;  // not ready yet: asked again at its next use
    }
    queries->device(handle, &device);
    const ColdLock lock;
    if (!lock) {
        return;
    }
    format::CommunicatorRecord& record = *communicator.record;
    store_field(record.device, device);
    if (!communicator.incomplete.load(std::memory_order_relaxed)) {
        return;
    }
    store_field(record.size, size);
    store_field(record.rank, rank);
    communicator.incomplete.store(false, std::memory_order_release);
}

void note_grow_alias(Communicator& parent, const void* unique_id) {
    parent.grow_alias = child_id(hash_unique_id(unique_id), OpKind::kCommGrow, 0, 0);
}

}  // namespace titan::tracer
