#include "create.h"

#include <dlfcn.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

namespace simgpu {

namespace {

template <typename T>
bool has_field(const ncclConfig_t* config, const T& field) {
    return reinterpret_cast<const char*>(&field) + sizeof(field) <=
           reinterpret_cast<const char*>(config) + config->size;
}

// NCCL refuses two members on one device, unless told otherwise (2.30 and later).
bool duplicate_device(const CoreRef& core) {
    const char* allowed = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (allowed && std::strcmp(allowed, "1") == 0) {
        return false;
    }
    const Member& self = core->segment->member(core->rank);
    for (int r = 0; r < core->ranks; ++r) {
        const Member& other = core->segment->member(r);
        if (r != core->rank && other.host == self.host && other.device == self.device) {
            return true;
        }
    }
    return false;
}

}  // namespace

ncclResult_t apply_config(const CoreRef& core, const ncclConfig_t* config) {
    if (!config) {
        return ncclSuccess;
    }
    if (config->magic != NCCL_API_MAGIC || config->size < offsetof(ncclConfig_t, cgaClusterSize)) {
        warn("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
        return ncclInvalidArgument;
    }
    if (config->blocking != NCCL_CONFIG_UNDEF_INT) {
        if (config->blocking != 0 && config->blocking != 1) {
            return ncclInvalidArgument;
        }
        core->blocking = config->blocking == 1;
    }
    if (has_field(config, config->commName) && config->commName) {
        core->name = config->commName;
    }
    return ncclSuccess;
}

// As NCCL does before anything else, and for good: variables of the process, over those that are there. NCCL reads
// ~/.nccl.conf and /etc/nccl.conf, too; those are of the machine that the tests run on.
void read_conf_file() {
    static std::once_flag once;
    std::call_once(once, [] {
        const char* const path = std::getenv("NCCL_CONF_FILE");
        std::ifstream file(path ? path : "");
        for (std::string line; std::getline(file, line);) {
            if (const size_t equals = line.find('='); line[0] != '#' && equals != std::string::npos) {
                setenv(line.substr(0, equals).c_str(), line.substr(equals + 1).c_str(), 1);
            }
        }
    });
}

// The id carries the name of the shared memory. Its process is the launcher of the job when there is one, so that the
// launcher can clean up after ranks that were killed.
std::string fresh_key() {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        random = static_cast<uint64_t>(getpid()) << 32 ^ reinterpret_cast<uintptr_t>(&random);
    }
    const char* job = std::getenv("SIMGPU_JOB_PID");
    char tail[20];
    std::snprintf(tail, sizeof(tail), "%016llx", static_cast<unsigned long long>(random));
    return segment_prefix(job ? std::atoi(job) : getpid()) + tail;
}

ncclUniqueId id_of(const std::string& key) {
    ncclUniqueId id;
    std::memset(&id, 0, sizeof(id));
    std::memcpy(id.internal, key.data(), std::min(key.size(), sizeof(id.internal) - 1));
    return id;
}

std::string key_of(const ncclUniqueId& id) {
    return std::string(id.internal, strnlen(id.internal, sizeof(id.internal)));
}

namespace {

// As NCCL makes it of a unique id: 33 times the hash so far, exclusive-or the next byte.
uint64_t comm_hash(const std::string& key) {
    uint64_t hash = 5381;
    for (const char byte : id_of(key).internal) {
        hash = (hash * 33) ^ static_cast<uint64_t>(byte);
    }
    return hash;
}

// As NCCL does; only tests of health put one where it is found.
void load_nvml() { [[maybe_unused]] static void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW); }

}  // namespace

ncclResult_t join_members(const CoreRef& core, const CoreRef& parent) {
    const auto stop = [core, parent] { return core->abort.load() || (parent && parent->abort.load()); };
    const JoinResult joined =
        Segment::join(core->key, core->ranks, core->rank, core->device, host_id(), stop, &core->segment);
    switch (joined) {
        case JoinResult::kJoined: break;
        case JoinResult::kStopped: return ncclInternalError;
        case JoinResult::kSystemError:
            warn("shared memory " + core->key + " cannot be used: " + std::strerror(errno));
            return ncclSystemError;
        case JoinResult::kWrongSize: warn("members disagree about the number of ranks"); return ncclInvalidUsage;
        case JoinResult::kRankTaken: warn("two members have the same rank"); return ncclInvalidUsage;
    }
    if (duplicate_device(core)) {
        warn("Duplicate GPU detected: two ranks on CUDA device " + std::to_string(core->device));
        return ncclInvalidUsage;
    }
    core->hash = comm_hash(core->key);
    profile_comm_opened(*core);
    return ncclSuccess;
}

void add_creation(const CoreRef& core, const CoreRef& parent, ncclComm_t* newcomm, Publish publish,
                  std::function<ncclResult_t()> prepare) {
    ncclComm_t early = nullptr;
    if (publish == Publish::kEarly) {
        early = make_handle(core);
    }
    *newcomm = early;
    InitJob job;
    job.core = core;
    job.parent = parent;
    load_nvml();
    job.run = [core, parent, prepare = std::move(prepare)] {
        ncclResult_t result = prepare ? prepare() : ncclSuccess;
        if (result == ncclSuccess && core) {
            result = join_members(core, parent);
        }
        return result;
    };
    job.done = [core, newcomm, early](ncclResult_t result) {
        if (result == ncclSuccess && core && !early) {
            core->async_result = ncclSuccess;
            *newcomm = make_handle(core);
        } else if (result != ncclSuccess && early && core->blocking) {
            drop_handle(early);
            *newcomm = nullptr;
        }
    };
    group_add(std::move(job));
}

}  // namespace simgpu
