// Two ranks that use NCCL and leave their communicator. Rank 0 then becomes another program, in the way that $BY names.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client.h"

using client::meeting;
using client::say;

namespace {

constexpr const char* kWaitForFile = "while ! test -e \"$E2E_MEET/end\"; do sleep 0.05; done; echo replaced";

struct Way {
    const char* name;
    void (*become)(char* const arguments[]);
};

constexpr Way kWays[] = {
    {"execv", [](char* const arguments[]) { execv("/bin/sh", arguments); }},
    {"execvp", [](char* const arguments[]) { execvp("sh", arguments); }},
    {"execve", [](char* const arguments[]) { execve("/bin/sh", arguments, environ); }},
    {"execvpe", [](char* const arguments[]) { execvpe("sh", arguments, environ); }},
    {"fexecve", [](char* const arguments[]) { fexecve(open("/bin/sh", O_RDONLY), arguments, environ); }},
    {"execveat", [](char* const arguments[]) { execveat(AT_FDCWD, "/bin/sh", arguments, environ, 0); }},
    {"execl", [](char* const arguments[]) { execl("/bin/sh", "sh", arguments[1], arguments[2], nullptr); }},
    {"execlp", [](char* const arguments[]) { execlp("sh", "sh", arguments[1], arguments[2], nullptr); }},
    {"execle", [](char* const arguments[]) { execle("/bin/sh", "sh", arguments[1], arguments[2], nullptr, environ); }},
    // As a runtime without a libc does it.
    {"syscall", [](char* const arguments[]) { syscall(SYS_execve, "/bin/sh", arguments, environ); }},
    {"itself", [](char* const[]) { execl("/proc/self/exe", "replaced", "again", nullptr); }},
};

void become() {
    char shell[] = "sh";
    char option[] = "-c";
    char* const arguments[] = {shell, option, const_cast<char*>(kWaitForFile), nullptr};
    for (const Way& way : kWays) {
        if (std::strcmp(way.name, std::getenv("BY")) == 0) {
            way.become(arguments);
        }
    }
    REQUIRE(!"replaced");
}

void work(client::Rank& r) {
    r.join();
    r.reduce_and_sync();
    r.leave();
}

int rank() {
    client::Rank r;
    work(r);
    if (r.rank == 0) {
        become();
    }
    say("ready");
    client::await("go");
    return 0;
}

// Rank 0 once more, as a job of its own.
int again() {
    setenv("WORLD_SIZE", "1", 1);
    client::Rank r;
    work(r);
    say("worked again");
    client::await("end");
    return 0;
}

// Looks for a program in several places, starts another one beside itself, and goes on.
int stays() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    if (r.rank == 0) {
        execl("/nowhere/program", "program", nullptr);
        execlp("no-such-program-anywhere", "program", nullptr);
        const pid_t child = vfork();
        if (child == 0) {
            execlp("true", "true", nullptr);
            _exit(1);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    }
    r.reduce_and_sync();
    say("ready");
    client::await("go");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"rank", rank}, {"again", again}, {"stays", stays}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
