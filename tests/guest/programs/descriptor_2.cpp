// Programs in which descriptor 2 is not what it was when they started.
#include <fcntl.h>
#include <sys/stat.h>

#include "client.h"

namespace {

void work() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    client::say("ready");
    client::await("go");
}

int work_with(int file) {
    work();
    struct stat status {};
    REQUIRE(fstat(file, &status) == 0);
    client::say("%lld bytes in it", static_cast<long long>(status.st_size));
    return 0;
}

// A daemon closes its standard error; the next file that it opens gets the number.
int data() {
    close(STDERR_FILENO);
    const int file = open(client::meeting("data").c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(file == STDERR_FILENO && write(file, "record 1", 8) == 8);
    return work_with(file);
}

// A program that opens its log file itself.
int log() {
    const int file = open(client::meeting("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    REQUIRE(dup2(file, STDERR_FILENO) == STDERR_FILENO);
    work();
    return 0;
}

int unchanged() {
    work();
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"data", data}, {"log", log}, {"unchanged", unchanged}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
