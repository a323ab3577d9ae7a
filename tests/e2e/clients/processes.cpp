// Programs that fork, clone, execute and leave in every way while they are recorded.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client.h"
#include "titantrace.h"

using client::Rank;
using client::say;

namespace {

int ended(pid_t child) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Forks from a recorded process, lets the child do `work`, and goes on itself.
template <typename Work>
int fork_and(Work work) {
    Rank r;
    r.join();
    r.reduce_and_sync();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        work();
        say("child %d", getpid());
        _exit(0);
    }
    say("child ended with %d", ended(child));
    r.reduce_and_sync();
    say("done");
    client::await("go");
    r.leave();
    return 0;
}

int fork_idle() {
    return fork_and([] {
        usleep(300'000);
        client::await("child");
    });
}

int fork_markers() {
    return fork_and([] {
        titan_step(77);
        titan_span_begin("child");
        titan_event("of the child");
        titan_metric("child", 1);
        titan_span_end();
        say("dump %d", titan_dump("child"));
    });
}

// A child that becomes a rank itself: CUDA forbids it after use in the parent, NCCL's own calls must still arrive.
int fork_nccl() {
    return fork_and([] {
        ncclUniqueId id;
        say("id %d", static_cast<int>(ncclGetUniqueId(&id)));
        say("reduce %d", static_cast<int>(ncclAllReduce(nullptr, nullptr, 1, ncclFloat32, ncclSum, nullptr, nullptr)));
    });
}

// The parent never used NCCL, each child is a rank: launchers that fork.
int fork_first() {
    pid_t children[2];
    for (int i = 0; i < 2; ++i) {
        children[i] = fork();
        if (children[i] == 0) {
            setenv("RANK", i == 0 ? "0" : "1", 1);
            setenv("WORLD_SIZE", "2", 1);
            setenv("LOCAL_RANK", i == 0 ? "0" : "1", 1);
            Rank r;
            r.join();
            r.reduce_and_sync();
            client::await("go");
            r.leave();
            exit(0);
        }
    }
    say("done");
    const int first = ended(children[0]), second = ended(children[1]);
    return first + second;
}

int raw_clone() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
        titan_step(5);
        ncclAllReduce(nullptr, nullptr, 1, ncclFloat32, ncclSum, nullptr, nullptr);
        _exit(0);
    }
    say("child ended with %d", ended(child));
    r.reduce_and_sync();
    say("done");
    client::await("go");
    return 0;
}

// system() and friends: the child is somebody else's program.
int shells() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    std::fflush(stdout);
    REQUIRE(std::system("echo from a shell; true | cat") == 0);
    FILE* pipe = popen("echo through a pipe", "r");
    char line[64] = "";
    REQUIRE(pipe && std::fgets(line, sizeof(line), pipe) && pclose(pipe) == 0);
    std::printf("%s", line);
    r.reduce_and_sync();
    r.leave();
    say("done");
    return 0;
}

// A recorded process becomes another program, which is recorded too.
int execute() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    const char* self = "/proc/self/exe";
    execl(self, self, "after-exec", nullptr);
    return 1;
}

int after_exec() {
    Rank r;
    r.join();
    r.all_reduce(4242);
    r.sync();
    say("done");
    client::await("go");
    return 0;
}

int close_files() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    say("closing");
    for (int fd = 0; fd < 1024; ++fd) {
        close(fd);
    }
    // What the program opens next gets the numbers that were closed: nobody may write into it.
    const int mine = open(client::meeting("mine").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 20; ++i) {
        open("/dev/null", O_RDWR);
    }
    client::await("go");
    r.reduce_and_sync();
    return mine == 0 ? 0 : 3;
}

int linger() {
    Rank r;
    r.join();
    for (int i = 0; i < 5; ++i) {
        titan_step(i);
        r.reduce_and_sync();
    }
    say("done");
    client::await("go");
    for (int i = 0; i < 5; ++i) {
        r.reduce_and_sync();
    }
    r.leave();
    return client::number("E2E_STATUS", 0);
}

int dump_by_hand() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    say("dump %d", titan_dump("by hand"));
    return 0;
}

int five_dumps() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    for (int i = 0; i < 5; ++i) {
        say("dump %d", titan_dump("one of five"));
    }
    return 0;
}

// Markers alone do not make a rank of a process that no launcher started.
int markers_only() {
    for (int i = 0; i < 10; ++i) {
        titan_step(i);
        titan_span_begin("span");
        titan_span_end();
    }
    say("done");
    client::await("go");
    return 0;
}

// Memory and a stream, as a program has them before its first collective.
int cuda_only() {
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    CUDA(cudaMalloc(&memory, 4096));
    CUDA(cudaStreamCreate(&stream));
    say("done");
    client::await("go");
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(memory));
    return 0;
}

// Its rank's variables are also those of a helper that it starts: a compiler that tries out kernels.
int cuda_in_a_helper() {
    void* memory = nullptr;
    CUDA(cudaMalloc(&memory, 4096));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "e2e-processes", "cuda-only", nullptr);
        _exit(127);
    }
    say("child ended with %d", ended(child));
    CUDA(cudaFree(memory));
    return 0;
}

int in_a_span() {
    titan_step(3);
    titan_span_begin("outer");
    titan_span_begin("load batch");
    say("done");
    client::await("go");
    return 0;
}

int nothing() {
    say("done");
    client::await("go");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"fork-idle", fork_idle},
                                           {"fork-markers", fork_markers},
                                           {"fork-nccl", fork_nccl},
                                           {"fork-first", fork_first},
                                           {"raw-clone", raw_clone},
                                           {"shells", shells},
                                           {"execute", execute},
                                           {"after-exec", after_exec},
                                           {"close-files", close_files},
                                           {"linger", linger},
                                           {"dump-by-hand", dump_by_hand},
                                           {"five-dumps", five_dumps},
                                           {"markers-only", markers_only},
                                           {"in-a-span", in_a_span},
                                           {"cuda-only", cuda_only},
                                           {"cuda-in-a-helper", cuda_in_a_helper},
                                           {"nothing", nothing}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
