// NCCL API: the host side of the device API. There are no device communicators here: teams answer honestly (every rank
// is its own island but in the world team), everything that would hand out device resources is refused.
#include <cstring>

#include "comm.h"
#include "plan.h"

using namespace simgpu;

NCCL_EXPORT(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* out)) {
    const CoreRef core = find_core(comm);
    if (!core || !out || out->magic != NCCL_API_MAGIC || out->size < sizeof *out) {
        return ncclInvalidArgument;
    }
    ncclCommProperties_t properties;
    std::memset(&properties, 0, sizeof(properties));
    properties.size = out->size;
    properties.magic = out->magic;
    properties.version = out->version;
    properties.rank = core->rank;
    properties.nRanks = core->ranks;
    properties.cudaDev = properties.nvmlDev = core->device;
    properties.nLsaTeams = core->ranks;
    properties.commHash = mix(0xcbf29ce484222325ull, core->key.data(), core->key.size());
    *out = properties;
    return ncclSuccess;
}

namespace {

ncclTeam_t team(int ranks, int rank, int stride) {
    ncclTeam_t made;
    made.nRanks = ranks;
    made.rank = rank;
    made.stride = stride;
    return made;
}

ncclTeam_t alone() { return team(1, 0, 1); }

ncclTeam_t world(ncclComm_t comm) {
    const CoreRef core = find_core(comm);
    return core ? team(core->ranks, core->rank, 1) : alone();
}

}  // namespace

NCCL_EXPORT(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm)) { return world(comm); }
NCCL_EXPORT(ncclTeam_t, ncclTeamRail, (ncclComm_t comm)) { return world(comm); }
NCCL_EXPORT(ncclTeam_t, ncclTeamLsa, (ncclComm_t)) { return alone(); }
NCCL_EXPORT(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t)) { return alone(); }
NCCL_EXPORT(ncclTeam_t, ncclTeamCft, (ncclComm_t, ncclCftTeamMode_t)) { return alone(); }

NCCL_EXPORT(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t of, int rank)) {
    const CoreRef core = find_core(comm);
    return core ? core->rank + (rank - of.rank) * of.stride : -1;
}
NCCL_EXPORT(int, ncclTeamRankToLsa, (ncclComm_t, ncclTeam_t of, int rank)) { return rank == of.rank ? 0 : -1; }

#define REFUSED(name, ...) \
    NCCL_EXPORT(ncclResult_t, name, (__VA_ARGS__)) { return ncclInvalidUsage; }

REFUSED(ncclDevCommCreate, ncclComm_t, ncclDevCommRequirements_t const*, ncclDevComm_t*)
REFUSED(ncclDevCommDestroy, ncclComm_t, ncclDevComm_t const*)
REFUSED(ncclGetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**)
REFUSED(ncclGetMultimemDevicePointer, ncclWindow_t, size_t, ncclMultimemHandle_t, void**)
REFUSED(ncclGetLsaDevicePointer, ncclWindow_t, size_t, int, void**)
REFUSED(ncclGetPeerDevicePointer, ncclWindow_t, size_t, int, void**)
REFUSED(ncclGetMultimemDeviceLeInfo, ncclWindow_t, size_t, ncclCftLeId*, size_t*)
REFUSED(ncclGetCftDeviceLeInfo, ncclWindow_t, size_t, int, ncclTeam_t, ncclCftLeId*, size_t*)
REFUSED(ncclGetPeerDeviceLeInfo, ncclWindow_t, size_t, int, ncclCftLeId*, size_t*)
REFUSED(ncclLsaBarrierCreateRequirement, ncclTeam_t, int, ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*)
REFUSED(ncclGinBarrierCreateRequirement, ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*,
        ncclDevResourceRequirements_t*)
REFUSED(ncclLLA2ACreateRequirement, int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*)

NCCL_EXPORT(int, ncclLLA2ACalcSlots, (int elements, int element_bytes)) { return elements * ((element_bytes + 7) / 8); }
