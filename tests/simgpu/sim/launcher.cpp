#include "launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "check.h"

namespace simgpu {

namespace {

using Clock = std::chrono::steady_clock;

struct RankProcess {
    int rank;
    pid_t pid;
    bool running = true;
    int status = 0;
};

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void expand_host(const char* name, int host) {
    const char* raw = std::getenv(name);
    if (!raw) {
        return;
    }
    std::string text = raw;
    for (size_t at; (at = text.find("%h")) != std::string::npos;) {
        text.replace(at, 2, std::to_string(host));
    }
    set(name, text);
}

void set_rank_environment(const Options& options, int rank, const std::string& directory, pid_t launcher) {
    const int per_host = options.ranks_per_host(), host = rank / per_host;
    set("RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(options.train.layout.world()));
    set("LOCAL_RANK", std::to_string(rank % per_host));
    set("LOCAL_WORLD_SIZE", std::to_string(per_host));
    set("SIMGPU_HOST_INDEX", std::to_string(host));
    set("SIMGPU_RENDEZVOUS", directory);
    set("SIMGPU_JOB_PID", std::to_string(launcher));
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", "29500", 0);
    setenv("TITANTRACE_RUN_ID", ("titan-sim-" + std::to_string(launcher)).c_str(), 0);
    setenv("SIMGPU_DEVICES", std::to_string(std::max(8, per_host)).c_str(), 0);
    expand_host("TITANTRACE_RING_DIR", host);
}

std::string describe(int status) {
    if (WIFSIGNALED(status)) {
        return std::string("killed by signal ") + std::to_string(WTERMSIG(status)) + " (" +
               strsignal(WTERMSIG(status)) + ")";
    }
    return "exit status " + std::to_string(WEXITSTATUS(status));
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

void write_pid_file(const std::string& path, const std::vector<RankProcess>& ranks) {
    const std::string temporary = path + ".new";
    if (FILE* file = std::fopen(temporary.c_str(), "w")) {
        for (const RankProcess& rank : ranks) {
            std::fprintf(file, "%d %d\n", rank.rank, rank.pid);
        }
        std::fclose(file);
        std::rename(temporary.c_str(), path.c_str());
    } else {
        std::fprintf(stderr, "titan-sim: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    }
}

void signal_all(const std::vector<RankProcess>& ranks, int signal) {
    for (const RankProcess& rank : ranks) {
        if (rank.running) {
            kill(rank.pid, signal);
        }
    }
}

// Takes what ended; the first bad end decides the job's status.
bool reap(std::vector<RankProcess>& ranks, int* job_status) {
    bool failed = false;
    for (RankProcess& rank : ranks) {
        if (rank.running && waitpid(rank.pid, &rank.status, WNOHANG) == rank.pid) {
            rank.running = false;
            if (rank.status != 0) {
                failed = true;
                std::fprintf(stderr, "titan-sim: rank %d (pid %d): %s\n", rank.rank, rank.pid,
                             describe(rank.status).c_str());
                *job_status = *job_status ? *job_status : exit_code(rank.status);
            }
        }
    }
    return failed;
}

}  // namespace

std::string make_job_directory() {
    const char* base = std::getenv("TMPDIR");
    std::string path = std::string(base ? base : "/tmp") + "/titan-sim-XXXXXX";
    if (!mkdtemp(path.data())) {
        std::fprintf(stderr, "titan-sim: cannot make %s: %s\n", path.c_str(), std::strerror(errno));
        std::exit(kExitApiError);
    }
    return path;
}

void clean_up_job(const std::string& directory, int job_pid) {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    const std::string prefix = "simgpu-" + std::to_string(getuid()) + "-" + std::to_string(job_pid) + "-";
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
        const std::string name = entry.path().filename();
        if (name.compare(0, prefix.size(), prefix) == 0) {
            shm_unlink(("/" + name).c_str());
        }
    }
}

int launch_ranks(const Options& options, char** argv) {
    // Signals are waited for, not handled: nothing of the launcher runs inside a handler.
    sigset_t signals, before;
    sigemptyset(&signals);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
        sigaddset(&signals, signal);
    }
    sigset_t blocked = signals;
    sigaddset(&blocked, SIGPIPE);  // the job is cleaned up even when nobody reads its messages any more
    sigprocmask(SIG_BLOCK, &blocked, &before);

    const pid_t launcher = getpid();
    const std::string directory = make_job_directory();
    std::vector<RankProcess> ranks;
    const int processes = options.threads ? 1 : options.train.layout.world();
    for (int rank = 0; rank < processes; ++rank) {
        const pid_t pid = fork();
        if (pid < 0) {
            std::fprintf(stderr, "titan-sim: fork: %s\n", std::strerror(errno));
            signal_all(ranks, SIGKILL);
            clean_up_job(directory, launcher);
            return kExitApiError;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed launcher leaves no ranks
            sigprocmask(SIG_SETMASK, &before, nullptr);
            set_rank_environment(options, rank, directory, launcher);
            execv("/proc/self/exe", argv);
            _exit(127);
        }
        ranks.push_back({rank, pid});
    }
    if (!options.pid_file.empty()) {
        write_pid_file(options.pid_file, ranks);
    }
    const auto deadline = Clock::now() + std::chrono::duration<double>(options.timeout_s);
    int status = 0;
    while (std::any_of(ranks.begin(), ranks.end(), [](const RankProcess& rank) { return rank.running; })) {
        const timespec pause{0, 200'000'000};
        const int signal = sigtimedwait(&signals, nullptr, &pause);
        if (signal > 0 && signal != SIGCHLD) {
            signal_all(ranks, signal);
        }
        if (reap(ranks, &status) && options.fail_fast) {
            signal_all(ranks, SIGTERM);
        }
        if (Clock::now() > deadline) {
            std::fprintf(stderr, "titan-sim: not finished after %.0f s, killing all ranks\n", options.timeout_s);
            for (RankProcess& rank : ranks) {
                if (rank.running) {
                    std::fprintf(stderr, "titan-sim: rank %d (pid %d): still running, killed\n", rank.rank, rank.pid);
                    kill(rank.pid, SIGKILL);
                    waitpid(rank.pid, &rank.status, 0);
                    rank.running = false;
                }
            }
            status = kExitTimeout;
        }
    }
    clean_up_job(directory, launcher);
    return status;
}

}  // namespace simgpu
