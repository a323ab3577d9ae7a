// Programs that count on how descriptors are given: a limit that is raised and lowered, the lowest number that is free.
#include <fcntl.h>
#include <sys/resource.h>

#include "client.h"

namespace {

void limit_files(rlim_t soft) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = soft;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

rlim_t files_now() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

int files() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t low = limit.rlim_max / 2;
    limit_files(low);
    client::say("ready");
    int lost = 0;
    int lent = 0;
    while (access(client::meeting("go").c_str(), F_OK) != 0) {
        limit_files(limit.rlim_max);
        usleep(5000);
        lost += files_now() != limit.rlim_max;
        limit_files(low);
        usleep(5000);
        lent += files_now() != low;
    }
    client::say("%d times a raise was undone, %d times the limit was another", lost, lent);
    return 0;
}

// Opens a file in the place of standard input, as programs do that become daemons.
int lowest_number() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    close(STDIN_FILENO);
    client::say("ready");
    client::await("go");
    int file = -1;
    for (int round = 0; round < 200 && file != STDIN_FILENO; ++round) {
        close(file);
        usleep(10'000);
        file = open("/dev/null", O_RDONLY);
    }
    client::say("the lowest free number is %d", file);
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"files", files}, {"lowest_number", lowest_number}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
