// NCCL API: creation of communicators.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "create.h"
#include "nvtx.h"

using namespace simgpu;

NCCL_EXPORT(ncclResult_t, ncclGetVersion, (int* version)) {
    if (!version) {
        return ncclInvalidArgument;
    }
    const char* text = std::getenv("SIMGPU_NCCL_VERSION");
    *version = text ? std::atoi(text) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * out)) {
    if (!out) {
        return ncclInvalidArgument;
    }
    read_conf_file();
    sweep_stale_segments();
    *out = id_of(fresh_key());
    return ncclSuccess;
}

namespace {

ncclResult_t init_rank(ncclComm_t* newcomm, int ranks, const std::string& key, int rank, int device,
                       const ncclConfig_t* config) {
    if (!newcomm || ranks < 1 || rank < 0 || rank >= ranks || key.empty()) {
        return ncclInvalidArgument;
    }
    read_conf_file();
    *newcomm = nullptr;
    auto core = std::make_shared<Core>();
    core->key = key;
    core->rank = rank;
    core->ranks = ranks;
    core->device = device;
    core->context = device_context(device);
    if (!core->context) {
        return ncclUnhandledCudaError;
    }
    SIMGPU_TRY(apply_config(core, config));
    add_creation(core, nullptr, newcomm, Publish::kEarly, nullptr);
    return ncclSuccess;
}

}  // namespace

NCCL_EXPORT(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank)) {
    SIMGPU_NVTX_RANGE("ncclCommInitRank")
    return grouped([&] { return init_rank(comm, ranks, key_of(id), rank, current_device(), nullptr); });
}

NCCL_EXPORT(ncclResult_t, ncclCommInitRankConfig,
            (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)) {
    SIMGPU_NVTX_RANGE("ncclCommInitRankConfig")
    return grouped([&] { return init_rank(comm, ranks, key_of(id), rank, current_device(), config); });
}

NCCL_EXPORT(ncclResult_t, ncclCommInitRankScalable,
            (ncclComm_t * comm, int ranks, int rank, int id_count, ncclUniqueId* ids, ncclConfig_t* config)) {
    SIMGPU_NVTX_RANGE("ncclCommInitRankScalable")
    return grouped([&] {
        if (!ids || id_count < 1 || id_count > ranks) {
            return ncclInvalidArgument;
        }
        // All ids must agree on all ranks, but the first one alone names the meeting place.
        return init_rank(comm, ranks, key_of(ids[0]), rank, current_device(), config);
    });
}

NCCL_EXPORT(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int devices, const int* list)) {
    SIMGPU_NVTX_RANGE("ncclCommInitAll")
    if (!comms || devices < 1) {
        return ncclInvalidArgument;
    }
    ncclUniqueId id;
    // Through the PLT, as in NCCL: someone who stands in front of it sees this call too.
    SIMGPU_TRY(ncclGetUniqueId(&id));
    return grouped([&] {
        for (int i = 0; i < devices; ++i) {
            const ncclResult_t result = init_rank(&comms[i], devices, key_of(id), i, list ? list[i] : i, nullptr);
            if (result != ncclSuccess) {
                return result;
            }
        }
        return ncclSuccess;
    });
}

namespace {

// What split, shrink and grow share: a child with the parent's device and settings.
ncclResult_t make_child(const CoreRef& parent, const ncclConfig_t* config, CoreRef* out) {
    auto child = std::make_shared<Core>();
    child->device = parent->device;
    child->context = parent->context;
    child->blocking = parent->blocking;
    *out = child;
    return apply_config(child, config);
}

ncclResult_t check_parent(ncclComm_t comm, const CoreRef& parent) {
    if (!parent) {
        return ncclInvalidArgument;
    }
    return parent->revoked ? (parent->state() == ncclInProgress ? ncclInvalidUsage : ncclSuccess)
                           : usable(comm, parent);
}

// Members tell each other colour and key over the parent, then meet in the child.
ncclResult_t exchange_colors(const CoreRef& parent, const CoreRef& child, int color, int key, uint32_t ordinal) {
    Segment& segment = *parent->segment;
    segment.member(parent->rank).color = color;
    segment.member(parent->rank).key = key;
    const auto stop = [parent, child] { return parent->abort.load() || (child && child->abort.load()); };
    if (!segment.pass(segment.header().host, stop)) {
        return ncclInternalError;
    }
    std::vector<std::pair<int, int>> members;  // key, parent rank
    for (int r = 0; r < parent->ranks; ++r) {
        if (segment.member(r).color == color) {
            members.emplace_back(segment.member(r).key, r);
        }
    }
    if (!segment.pass(segment.header().host, stop)) {  // before the next split overwrites
        return ncclInternalError;
    }
    if (child) {
        std::sort(members.begin(), members.end());
        const auto self = std::find_if(members.begin(), members.end(),
                                       [&](const auto& member) { return member.second == parent->rank; });
        child->rank = static_cast<int>(self - members.begin());
        child->ranks = static_cast<int>(members.size());
        child->key = child_key(*parent, "split", ordinal, &color, sizeof(color));
    }
    return ncclSuccess;
}

}  // namespace

NCCL_EXPORT(ncclResult_t, ncclCommSplit,
            (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
    SIMGPU_NVTX_RANGE("ncclCommSplit")
    return grouped([&] {
        const CoreRef parent = find_core(comm);
        if (!newcomm || color < NCCL_SPLIT_NOCOLOR) {
            return ncclInvalidArgument;
        }
        SIMGPU_TRY(check_parent(comm, parent));
        CoreRef child;
        if (color != NCCL_SPLIT_NOCOLOR) {
            SIMGPU_TRY(make_child(parent, config, &child));
        }
        const uint32_t ordinal = ++parent->children;
        add_creation(child, parent, newcomm, Publish::kLate,
                     [=] { return exchange_colors(parent, child, color, key, ordinal); });
        return ncclSuccess;
    });
}

NCCL_EXPORT(ncclResult_t, ncclCommShrink,
            (ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* newcomm, ncclConfig_t* config,
             int flags)) {
    SIMGPU_NVTX_RANGE("ncclCommShrink")
    return grouped([&] {
        const CoreRef parent = find_core(comm);
        if (!newcomm || !excluded || excluded_count < 1 || (flags & ~NCCL_SHRINK_ABORT)) {
            return ncclInvalidArgument;
        }
        SIMGPU_TRY(check_parent(comm, parent));
        std::vector<int> gone(excluded, excluded + excluded_count);
        std::sort(gone.begin(), gone.end());
        gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
        if (std::binary_search(gone.begin(), gone.end(), parent->rank) || gone.front() < 0 ||
            gone.back() >= parent->ranks) {
            return ncclInvalidArgument;
        }
        if (flags & NCCL_SHRINK_ABORT) {
            // Everything launched so far ends, what is still queued included: with the flag down again it would hang
            // anew.
            parent->abort = true;
            std::unique_lock lock(parent->lock);
            parent->plan_ended.wait(lock, [&] { return parent->plans_queued == 0; });
            lock.unlock();
            parent->abort = false;
        }
        CoreRef child;
        SIMGPU_TRY(make_child(parent, config, &child));
        const auto below = std::lower_bound(gone.begin(), gone.end(), parent->rank) - gone.begin();
        child->rank = parent->rank - static_cast<int>(below);
        child->ranks = parent->ranks - static_cast<int>(gone.size());
        child->key = child_key(*parent, "shrink", ++parent->children, gone.data(), gone.size() * sizeof(int));
        add_creation(child, parent, newcomm, Publish::kLate, nullptr);
        return ncclSuccess;
    });
}

NCCL_EXPORT(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id)) {
    const CoreRef core = find_core(comm);
    if (!core || !id) {
        return ncclInvalidArgument;
    }
    SIMGPU_TRY(usable(comm, core));
    *id = id_of(child_key(*core, "grow", core->children + 1, nullptr, 0));
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommGrow,
            (ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* newcomm, ncclConfig_t* config)) {
    SIMGPU_NVTX_RANGE("ncclCommGrow")
    if (!newcomm) {
        return ncclInvalidArgument;
    }
    *newcomm = nullptr;
    return grouped([&] {
        if (!comm) {
            return id && rank >= 0 ? init_rank(newcomm, ranks, key_of(*id), rank, current_device(), config)
                                   : ncclInvalidArgument;
        }
        const CoreRef parent = find_core(comm);
        SIMGPU_TRY(check_parent(comm, parent));
        if (rank != -1 || ranks <= parent->ranks) {
            return ncclInvalidArgument;
        }
        CoreRef grown;
        SIMGPU_TRY(make_child(parent, config, &grown));
        grown->rank = parent->rank;
        grown->ranks = ranks;
        grown->key = child_key(*parent, "grow", ++parent->children, nullptr, 0);
        add_creation(grown, nullptr, newcomm, Publish::kEarly, nullptr);
        return ncclSuccess;
    });
}
