#include "identity.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

// The first launcher whose rank variable holds a number is believed for the whole row: numbers of two launchers do not
// mix (srun starting one torchrun per node gives SLURM_PROCID of the node and RANK of the process). Innermost first.
struct Launcher {
    const char* rank;
    const char* world_size;
    const char* local_rank;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},  // torchrun, and scripts that imitate it
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    {"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_LOCAL_PROCESS_ID"},
    {"JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", nullptr},  // Kubernetes Indexed Job: one process per pod
};

constexpr const char* kAttempts[] = {"TORCHELASTIC_RESTART_COUNT", "JOBSET_RESTART_ATTEMPT", "SLURM_RESTART_COUNT"};

// Names of the run, outermost last; `second` is appended if it is set.
struct RunName {
    const char* variable;
    const char* prefix;
    const char* second;
};
constexpr RunName kRunNames[] = {
    {"TORCHELASTIC_RUN_ID", "", nullptr},
    {"RAY_JOB_ID", "ray-",
     "MASTER_PORT"},  // the job of one driver, which may train many times, each time with a new port
    {"SLURM_JOB_ID", "slurm-", "SLURM_STEP_ID"},
    {"PMIX_NAMESPACE", "mpi-", nullptr},
    {"OMPI_MCA_ess_base_jobid", "mpi-", nullptr},
    {"PMI_JOBID", "mpi-", nullptr},
    {"JOBSET_NAME", "", nullptr},
    {"JOB_NAME", "", "MASTER_PORT"},  // also set by things that are no jobs, and the same for all of them
};

bool environment_number(const char* variable, int32_t& value) {
    const char* text = variable == nullptr ? nullptr : getenv(variable);
    uint64_t number = 0;
    if (text == nullptr || !parse_u64(text, number) || number > INT32_MAX) {
        return false;
    }
    value = static_cast<int32_t>(number);
    return true;
}

void read_ranks(Identity& identity) {
    identity.rank = identity.world_size = identity.local_rank = -1;
    for (const Launcher& launcher : kLaunchers) {
        if (environment_number(launcher.rank, identity.rank)) {
            environment_number(launcher.world_size, identity.world_size);
            environment_number(launcher.local_rank, identity.local_rank);
            return;
        }
    }
}

// torchrun without --rdzv-id says "none" on every job.
const char* meaningful(const char* variable) {
    const char* text = getenv(variable);
    return text == nullptr || text[0] == '\0' || strcasecmp(text, "none") == 0 ? nullptr : text;
}

bool is_loopback(const char* address) {
    return same_text(address, "localhost") || same_text(address, "::1") || starts_with(address, "127.");
}

// Nobody named the run: ranks on one node share a parent; ranks on several share the address of rank 0. In its own pod
// Kubeflow's PyTorchJob calls that one localhost, and by the pod's name, which is the host's, in the others.
void invent_run_name(const Identity& identity, TextWriter& name) {
    int32_t local_size = -1;
    bool one_node = environment_number("LOCAL_WORLD_SIZE", local_size) && local_size == identity.world_size;
    const char* address = meaningful("MASTER_ADDR");
    const char* port = meaningful("MASTER_PORT");
    if (identity.rank < 0) {
        name.format("process-%d-%lu", identity.pid, identity.pid_start_ticks);
    } else if (!one_node && address != nullptr && port != nullptr && identity.world_size > 1) {
        name.format("%s-%s", is_loopback(address) ? identity.host : address, port);
    } else {
        int parent = getppid();
        name.format("local-%d-%lu", parent, process_start_ticks(parent));
    }
}

void read_run_name(const Config& config, Identity& identity) {
    char raw[512];
    TextWriter name(raw, sizeof(raw));
    name.text(config.run_id);
    for (size_t i = 0; i < sizeof(kRunNames) / sizeof(kRunNames[0]) && name.size_bytes() == 0; ++i) {
        const char* text = meaningful(kRunNames[i].variable);
        if (text == nullptr) {
            continue;
        }
        name.format("%s%s", kRunNames[i].prefix, text);
        const char* second = kRunNames[i].second == nullptr ? nullptr : meaningful(kRunNames[i].second);
        if (second != nullptr) {
            name.format(".%s", second);
        }
    }
    if (name.size_bytes() == 0) {
        invent_run_name(identity, name);
    }
    TextWriter run(identity.run, sizeof(identity.run));
    for (size_t i = 0; i < name.size_bytes(); ++i) {
        char c = raw[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                     c == '-' || (c == '.' && i != 0);
        run.put(plain ? c : '_');
    }
}

void read_executable(Identity& identity) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    const size_t room = sizeof(identity.executable) - 1;
    const char* tail = static_cast<size_t>(length) > room && length > 0 ? path + length - room : path;
    copy_text(identity.executable, sizeof(identity.executable), tail);
}

}  // namespace

bool environment_names_rank() {
    int32_t rank = -1;
    for (const Launcher& launcher : kLaunchers) {
        if (environment_number(launcher.rank, rank)) {
            return true;
        }
    }
    return false;
}

void read_identity(const Config& config, Identity& identity) {
    identity = Identity{};
    identity.pid = getpid();
    identity.uid = static_cast<int32_t>(geteuid());
    identity.pid_start_ticks = process_start_ticks(identity.pid);
    identity.pid_namespace = pid_namespace_inode();
    read_ranks(identity);
    for (const char* variable : kAttempts) {
        if (environment_number(variable, identity.attempt)) {
            break;
        }
    }
    if (gethostname(identity.host, sizeof(identity.host)) != 0) {
        copy_text(identity.host, sizeof(identity.host), "unknown");
    }
    identity.host[sizeof(identity.host) - 1] = '\0';
    read_run_name(config, identity);
    copy_text(identity.boot_id, sizeof(identity.boot_id), read_boot_id().text);
    read_executable(identity);
}

}  // namespace titan::tracer
