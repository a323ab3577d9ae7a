#include <doctest/doctest.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/process.h"
#include "identity.h"
#include "scratch.h"

using namespace titan;
using namespace titan::tracer;

namespace {

void forget_launchers() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "TITANTRACE_RUN_ID", "SLURM_PROCID", "SLURM_NTASKS",
                             "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
                             "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE", "JOB_NAME", "RAY_JOB_ID"}) {
        unsetenv(name);
    }
}

struct Identified : Identity {
    bool environment_named_rank;
};

Identified identify(const titan::test::Environment& environment) {
    forget_launchers();
    titan::test::apply(environment);
    auto config = std::make_unique<Config>();
    load_config(*config);
    Identified identity{};
    read_identity(*config, identity);
    identity.environment_named_rank = environment_names_rank();
    forget_launchers();  // another case's dumps would lie under the attempt that is named here
    return identity;
}

}  // namespace

TEST_CASE("the innermost launcher is believed") {
    const Identified identity = identify({{"RANK", "5"},
                                          {"WORLD_SIZE", "16"},
                                          {"LOCAL_RANK", "1"},
                                          {"SLURM_PROCID", "1"},
                                          {"SLURM_NTASKS", "4"},
                                          {"SLURM_JOB_ID", "77"},
                                          {"SLURM_STEP_ID", "2"},
                                          {"TORCHELASTIC_RUN_ID", "none"},
                                          {"TORCHELASTIC_RESTART_COUNT", "3"}});
    CHECK(identity.rank == 5);
    CHECK(identity.world_size == 16);
    CHECK(identity.local_rank == 1);
    CHECK(identity.attempt == 3);
    CHECK(std::string(identity.run) == "slurm-77.2");
    CHECK(identity.environment_named_rank);
}

TEST_CASE("a launcher with a rank that is no number is passed over") {
    const Identified identity = identify({{"RANK", "-1"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}});
    CHECK(identity.rank == 2);
    CHECK(identity.world_size == 4);
}

TEST_CASE("the run is one harmless path component") {
    CHECK(std::string(identify({{"TITANTRACE_RUN_ID", "../a b/\xc3\xa4.x"}}).run) == "_._a_b___.x");
    CHECK(std::string(
              identify({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}).run) ==
          "n1-29500");
    CHECK(std::string(identify({{"RANK", "0"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_WORLD_SIZE", "8"},
                                {"MASTER_ADDR", "n1"},
                                {"MASTER_PORT", "1"}})
                          .run)
              .starts_with("local-"));
    CHECK(std::string(identify({}).run).starts_with("process-"));
}

TEST_CASE("rank 0 may call its own host localhost, as in the pods of a PyTorchJob") {
    char host[256] = {};
    REQUIRE(gethostname(host, sizeof(host) - 1) == 0);
    const auto run_at = [](const char* address) {
        return std::string(
            identify({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", address}, {"MASTER_PORT", "23456"}}).run);
    };
    CHECK(run_at("localhost") == run_at(host));
    CHECK(run_at("127.0.0.1") == run_at(host));
    CHECK(run_at("other-master-0") == "other-master-0-23456");
}

TEST_CASE("each worker group of a Ray job is a run, also within a Slurm job and on one node") {
    const auto run_of = [](const char* port) {
        return std::string(identify({{"RANK", "0"},
                                     {"WORLD_SIZE", "2"},
                                     {"LOCAL_WORLD_SIZE", "2"},
                                     {"MASTER_ADDR", "10.0.0.1"},
                                     {"MASTER_PORT", port},
                                     {"RAY_JOB_ID", "02000000"},
                                     {"SLURM_JOB_ID", "77"}})
                               .run);
    };
    CHECK(run_of("41237") == "ray-02000000.41237");
    CHECK(run_of("41238") != run_of("41237"));
}

TEST_CASE("what tells this process from all others") {
    const Identified identity = identify({});
    CHECK(identity.pid == getpid());
    CHECK(identity.rank == -1);
    CHECK(identity.pid_start_ticks != 0);
    CHECK(identity.pid_namespace != 0);
    CHECK(std::string(identity.boot_id).size() == 36);
    CHECK(std::string(identity.executable).ends_with(program_invocation_short_name));
    CHECK(process_alive(getpid(), identity.pid_start_ticks));
    CHECK_FALSE(process_alive(getpid(), identity.pid_start_ticks + 1));
}

TEST_CASE("a process whose main thread has left is alive, until the others leave, too") {
    int goes[2];
    REQUIRE(pipe(goes) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(goes[1]);
        pthread_t thread;
        const auto wait = [](void* pipe_end) -> void* {
            char byte;
            [[maybe_unused]] const ssize_t got = read(*static_cast<int*>(pipe_end), &byte, 1);
            _exit(0);
        };
        static int pipe_end;
        pipe_end = goes[0];
        pthread_create(&thread, nullptr, wait, &pipe_end);
        syscall(SYS_exit, 0);  // as pthread_exit does in the end
    }
    close(goes[0]);
    ProcessStat stat{};
    CHECK(titan::test::eventually([&] { return read_process_stat(child, stat) && stat.state == 'Z'; }));
    CHECK(process_alive(child, stat.start_ticks));
    close(goes[1]);
    CHECK(titan::test::eventually([&] { return process_start_ticks(child) == 0; }));
    titan::test::wait_child(child);
}

TEST_CASE("what /proc tells of us where it belongs to another pid namespace") {
    constexpr int kNotAllowed = 77;
    const uint64_t of_first = process_start_ticks(1);
    const pid_t child = fork();
    if (child == 0) {
        // A user namespace gives whoever is not root the right to the other one.
        const bool allowed = unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
        const pid_t first = allowed ? fork() : -1;
        if (first == 0) {
            _exit(getpid() == 1 && process_start_ticks(1) != of_first ? 0 : 1);
        }
        int status = 0;
        _exit(first < 0 ? kNotAllowed : waitpid(first, &status, 0) == first && status == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNotAllowed) {
        MESSAGE("skipped: this system lets no process make a pid namespace");
        return;
    }
    CHECK(status == 0);
}

TEST_CASE("a zombie is dead") {
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    CHECK(titan::test::eventually([&] { return process_start_ticks(child) == 0; }));
    titan::test::wait_child(child);
}
