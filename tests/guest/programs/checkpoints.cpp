// Programs that save themselves and go on from what they saved.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "client.h"

using client::say;

namespace {

void ready_and_go(client::Rank& r) {
    say("ready");
    client::await("go");
    r.reduce_and_sync();
    r.leave();
    say("finished");
}

// A copy made by fork is the checkpoint: it sleeps until the original is killed, and then does the rest with devices of
// its own.
int copy_goes_on() {
    REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);  // this process stands for the shell: it waits for whoever is last
    if (fork() == 0) {
        const pid_t original = getpid();
        long step = 1000;
        ncclUniqueId id;  // NCCL was used before the copy is made; CUDA was not, which would not survive that
        NCCL(ncclGetUniqueId(&id));
        if (fork() != 0) {
            client::Rank r;
            r.join("id-original");
            r.reduce_and_sync();
            say("original at step %ld", ++step);  // lost: the copy does not know of it
            kill(getpid(), SIGKILL);
        }
        while (getppid() == original || kill(original, 0) == 0) {  // also while nobody has waited for it
            usleep(2000);
        }
        client::await("end-is-told");  // what two processes say has one order
        say("copy goes on at step %ld", step);
        client::Rank r;
        r.join("id-copy");
        r.reduce_and_sync();
        ready_and_go(r);
        _exit(0);
    }
    int status = 0, last = 0;
    while (waitpid(-1, &status, 0) > 0) {
        last = status;
        say("a process ended with %x", status);
        FILE* const file = std::fopen(client::meeting("end-is-told").c_str(), "w");
        REQUIRE(file && std::fclose(file) == 0);
    }
    return last;
}

// The state goes into a file, the program runs itself again with it: what a program does that updates itself.
int runs_itself_again() {
    const std::string state = client::meeting("state");
    long step = 0;
    if (FILE* const file = std::fopen(state.c_str(), "r")) {
        REQUIRE(std::fscanf(file, "%ld", &step) == 1);
        std::fclose(file);
    }
    say("step %ld", step);
    client::Rank r;
    r.join(("id" + std::to_string(step)).c_str());
    r.reduce_and_sync();
    if (step < 3) {
        FILE* const file = std::fopen(state.c_str(), "w");
        REQUIRE(file && std::fprintf(file, "%ld", step + 1) > 0 && std::fclose(file) == 0);
        char* const self[] = {const_cast<char*>("/proc/self/exe"), const_cast<char*>("exec"), nullptr};
        execv(self[0], self);
        return 1;
    }
    ready_and_go(r);
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"copy", copy_goes_on}, {"exec", runs_itself_again}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
