// Ranks that give up rights before they end: another user, another root directory.
#include <grp.h>

#include "client.h"

namespace {

void work() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    r.leave();
    client::say("worked");
}

int user() {
    work();
    REQUIRE(setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    return 0;
}

int root_directory() {
    work();
    REQUIRE(chroot(client::meeting("").c_str()) == 0 && chdir("/") == 0);
    return 0;
}

int unchanged() {
    work();
    client::await("go");
    return 0;
}

constexpr client::Scenario kScenarios[] = {
    {"user", user}, {"root_directory", root_directory}, {"unchanged", unchanged}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
