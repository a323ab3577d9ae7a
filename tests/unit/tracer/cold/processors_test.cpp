// What a dump tells about the processors that its process got.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "processors.h"
#include "scratch.h"

using namespace titan;
using namespace titan::tracer;
using titan::test::Scratch;
namespace fs = std::filesystem;

namespace {

void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
}

void spin(std::chrono::milliseconds how_long) {
    const auto end = std::chrono::steady_clock::now() + how_long;
    while (std::chrono::steady_clock::now() < end) {
    }
}

std::string json_of(const ProcessorUse& use) {
    char text[512];
    TextWriter json(text, sizeof(text));
    write_processors(json, use);
    return text;
}

}  // namespace

TEST_CASE("the least quota of a cgroup and those above it counts") {
    Scratch scratch;
    const std::string mount = scratch.path("cgroup");
    write(mount + "/pods/cpu.max", "250000 100000\n");
    write(mount + "/pods/job/cpu.max", "400000 100000\n");
    write(mount + "/pods/job/rank/cpu.max", "max 100000\n");
    write(mount + "/odd/cpu.max", "much\n");
    CHECK(least_quota_cent(mount.c_str(), "/pods/job/rank") == 250);
    CHECK(least_quota_cent(mount.c_str(), "/pods") == 250);
    CHECK(least_quota_cent(mount.c_str(), "/odd") == 0);
    CHECK(least_quota_cent(mount.c_str(), "/") == 0);
    CHECK(least_quota_cent(mount.c_str(), "/not/there") == 0);
}

TEST_CASE("time without a processor is told of two that share one") {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        cpu_set_t own;
        cpu_set_t one;
        CPU_ZERO(&one);
        sched_getaffinity(0, sizeof(own), &own);
        for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
            if (CPU_ISSET(cpu, &own)) {
                CPU_SET(cpu, &one);
            }
        }
        sched_setaffinity(0, sizeof(one), &one);
        const pid_t other = fork();
        spin(std::chrono::milliseconds(300));
        if (other == 0) {
            _exit(0);
        }
        const ProcessorUse use = read_processors(0, {});
        waitpid(other, nullptr, 0);
        const bool counted = use.threads == 1 && use.run_delay_ns > 50'000'000 && use.run_ns > 0;
        const bool sane = use.allowed == 1 && use.online >= 1 && use.has_load;
        _exit(use.threads == 0 ? 2 : counted && sane ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) {
        MESSAGE("skipped: this kernel tells no scheduling times (/proc/self/schedstat)");
        return;
    }
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("what is not known of processors is left out") {
    CHECK(json_of({}).empty());
    ProcessorUse use{};
    use.online = 16;
    use.allowed = 8;
    CHECK(json_of(use) == ",\"processors\":{\"online\":16,\"allowed\":8}");
    use.quota_cent = 250;
    use.has_load = true;
    use.load_cent[0] = 1205;
    use.threads = 2;
    use.run_ns = 5;
    use.run_delay_ns = 7;
    CHECK(json_of(use) ==
          ",\"processors\":{\"online\":16,\"allowed\":8,\"quota\":2.50,\"load_1min\":12.05,\"load_5min\":0.00,"
          "\"load_15min\":0.00,\"threads\":2,\"run_ns\":5,\"run_delay_ns\":7}");
}
