#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "job.h"
#include "remote_request.h"
#include "scratch.h"
#include "session.h"
#include "start_session.h"
#include "watch.h"

using namespace titan::tracer;
using titan::format::DumpReason;
using titan::test::eventually;
using titan::test::has;
using titan::test::rank_environment;
using titan::test::read_dump;
using titan::test::Scratch;
using titan::test::start_child;
using titan::test::wait_child;
namespace fs = std::filesystem;

namespace {

// A rank that records until it is told to end by SIGUSR2. From when on it does so a file tells.
volatile sig_atomic_t told = 0;
int live(const Scratch& scratch) {
    signal(SIGUSR2, [](int) { told = 1; });
    if (start_session() == nullptr) {
        return 1;
    }
    close(open(scratch.path("records" + std::to_string(getpid())).c_str(), O_CREAT | O_RDWR, 0600));
    while (told == 0) {
        usleep(10'000);
    }
    on_process_exit(-1);
    return 0;
}

struct Ranks {
    std::vector<pid_t> pids;
    ~Ranks() {
        for (pid_t pid : pids) {
            kill(pid, SIGKILL);
            wait_child(pid);
        }
    }
    void add(const Scratch& scratch, const titan::test::Environment& environment) {
        pids.push_back(start_child(
            environment, [&] { return live(scratch); }, scratch.path("errors")));
    }
    void wait_until_all_record(const Scratch& scratch) {
        for (pid_t pid : pids) {
            CHECK(eventually([&] { return fs::exists(scratch.path("records" + std::to_string(pid))); }));
        }
    }
    void start(const Scratch& scratch, int count) {
        for (int rank = 0; rank < count; ++rank) {
            add(scratch, rank_environment(scratch, rank, count));
        }
        wait_until_all_record(scratch);
    }
    void end_in_order() {
        for (pid_t pid : pids) {
            kill(pid, SIGUSR2);
        }
        for (pid_t pid : pids) {
            CHECK(wait_child(pid) == 0);
        }
        pids.clear();
    }
};

std::string meta(const Scratch& scratch, const std::string& name) { return read_dump(scratch.dump_path(name)).meta; }

}  // namespace

TEST_CASE("one rank of the node is asked, all dump once") {
    Scratch scratch;
    Ranks ranks;
    ranks.start(scratch, 4);
    kill(ranks.pids[2], SIGUSR1);
    CHECK(eventually([&] { return scratch.dump_names().size() == 4; }));
    usleep(300'000);
    CHECK(scratch.dump_names().size() == 4);
    CHECK(has(meta(scratch, "rank00002.0.titan"), "\"reason\":\"signal\""));
    CHECK(has(meta(scratch, "rank00000.0.titan"),
              "\"reason\":\"peer\",\"detail\":\"asked by rank 2 (signal: SIGUSR1 from pid "));
    CHECK(has(meta(scratch, "rank00000.0.titan"), "\"requested_by_rank\":2,"));
    CHECK_FALSE(fs::exists(scratch.dumps() + "/test/dump-request"));  // all on one node

    // The whole group is asked at once, later: no echoes.
    usleep(2'200'000);
    for (pid_t pid : ranks.pids) {
        kill(pid, SIGUSR1);
    }
    CHECK(eventually([&] { return scratch.dump_names().size() >= 8; }));
    ranks.end_in_order();
    CHECK(titan::test::list_dir(scratch.ring_dir()).size() == 5);  // dumps were written: the rings stay
}

TEST_CASE("a job that ends in order leaves nothing") {
    Scratch scratch;
    Ranks ranks;
    ranks.start(scratch, 3);
    ranks.end_in_order();
    CHECK(titan::test::list_dir(scratch.ring_dir()).empty());
    CHECK_FALSE(fs::exists(scratch.dumps()));
}

TEST_CASE("a rank waits for the segment that another one keeps locked, and looks for no other") {
    Scratch scratch;
    Ranks ranks;
    ranks.start(scratch, 1);
    std::string page;
    for (const std::string& name : titan::test::list_dir(scratch.ring_dir())) {
        page = name.ends_with(".job") ? scratch.ring_dir() + "/" + name : page;
    }
    const pid_t holder = start_child({}, [&] {
        const bool locked = flock(open(page.c_str(), O_RDWR | O_CLOEXEC), LOCK_EX) == 0;
        close(open(scratch.path("locked").c_str(), O_CREAT | O_RDWR, 0600));
        usleep(2'500'000);
        return locked ? 0 : 1;
    });
    CHECK(eventually([&] { return fs::exists(scratch.path("locked")); }));
    ranks.add(scratch, rank_environment(scratch, 1, 2));
    ranks.wait_until_all_record(scratch);
    CHECK(wait_child(holder) == 0);
    kill(ranks.pids[0], SIGUSR1);
    CHECK(eventually([&] { return scratch.dump_names().size() == 2; }));
    ranks.end_in_order();
}

TEST_CASE("rings stay until the last of the job has saved what it wants of them") {
    Scratch scratch;
    const auto tell = [&](const char* what) {
        close(open(scratch.path(what).c_str(), O_CREAT | O_RDWR, 0600));
        return true;
    };
    const auto hear = [&](const char* what) { return eventually([&] { return fs::exists(scratch.path(what)); }); };
    const auto rings = [&] { return titan::test::list_dir(scratch.ring_dir()).size(); };  // and the segment
    const auto first = [&] {
        const bool was_last =
            start_session() == nullptr || !tell("recorded") || !hear("both record") || begin_leaving();
        tell("left");
        hear("the other saves");
        leave_job(was_last);
        tell("through");
        return was_last ? 1 : 0;
    };
    const auto second = [&] {
        const bool is_last =
            start_session() != nullptr && hear("recorded") && tell("both record") && hear("left") && begin_leaving();
        tell("the other saves");
        const bool are_there = hear("through") && rings() == 3;
        leave_job(is_last);
        return is_last && are_there && rings() == 0 ? 0 : 1;
    };
    const pid_t a = start_child(rank_environment(scratch, 0, 2), first, scratch.path("errors"));
    const pid_t b = start_child(rank_environment(scratch, 1, 2), second, scratch.path("errors"));
    CHECK(wait_child(a) == 0);
    CHECK(wait_child(b) == 0);
}

TEST_CASE("a rank that is killed is noticed, and a survivor writes its dump") {
    Scratch scratch;
    Ranks ranks;
    ranks.start(scratch, 3);
    pid_t victim = ranks.pids[1];
    kill(victim, SIGKILL);  // not reaped: a zombie is dead
    CHECK(eventually([&] { return scratch.dump_names().size() == 3; }));
    std::string collected = meta(scratch, "rank00001.0.titan");
    CHECK(has(collected, "\"reason\":\"collected\""));
    CHECK(has(collected, "\"process_alive\":false"));
    CHECK_FALSE(has(collected, "\"saved_by_rank\":-1"));
    auto ring = read_dump(scratch.dump_path("rank00001.0.titan")).ring;
    CHECK(reinterpret_cast<const titan::format::RingHeader*>(ring.data())->pid == victim);
    std::string detail = "rank 1 (pid " + std::to_string(victim) + ") died";
    CHECK((has(meta(scratch, "rank00000.0.titan"), detail) && has(meta(scratch, "rank00002.0.titan"), detail)));
    // Said once the file has its name.
    CHECK(
        eventually([&] { return has(titan::test::read_file(scratch.path("errors")), "dump of rank 1 written to "); }));
    usleep(2'500'000);
    CHECK(scratch.dump_names().size() == 3);
}

TEST_CASE("a rank that ended in order is in the dump of the others") {
    Scratch scratch;
    Ranks ranks;
    ranks.start(scratch, 2);
    kill(ranks.pids[1], SIGUSR2);
    CHECK(wait_child(ranks.pids[1]) == 0);
    ranks.pids.pop_back();
    kill(ranks.pids[0], SIGUSR1);
    CHECK(eventually([&] { return scratch.dump_names().size() == 2; }));
    CHECK(has(meta(scratch, "rank00001.0.titan"), "had exited"));
}

TEST_CASE("a rank that dumped as it exited is not saved by another") {
    Scratch scratch;
    Ranks ranks;
    for (int rank = 0; rank < 2; ++rank) {
        auto environment = rank_environment(scratch, rank, 2);
        environment["TITANTRACE_DUMP_ON"] = "exit,signal";
        ranks.add(scratch, environment);
    }
    ranks.wait_until_all_record(scratch);
    kill(ranks.pids[1], SIGUSR2);
    CHECK(wait_child(ranks.pids[1]) == 0);
    ranks.pids.pop_back();
    CHECK(scratch.dump_names() == std::vector<std::string>{"rank00001.0.titan"});
    // The second dump comes after all that the first one brings.
    for (const char* const dump : {"rank00000.0.titan", "rank00000.1.titan"}) {
        kill(ranks.pids[0], SIGUSR1);
        CHECK(eventually([&] { return fs::exists(scratch.dump_path(dump)); }));
    }
    CHECK(scratch.dump_names() ==
          std::vector<std::string>{"rank00000.0.titan", "rank00000.1.titan", "rank00001.0.titan"});
}

// As Python does at Ctrl-C: a handler, then once more without one. The second time must not call the first one's dump
// missing.
TEST_CASE("a rank that dumped when it was told to end is not saved by another") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0, 2);
    environment["TITANTRACE_TIMEOUT_S"] = "1";  // so that it soon counts as standing still
    Ranks ranks;
    ranks.add(scratch, rank_environment(scratch, 1, 2));
    ranks.wait_until_all_record(scratch);
    CHECK(titan::test::run_child(environment, [&] {
              signal(SIGINT, [](int) {});
              if (start_session() == nullptr) {
                  return 1;
              }
              const bool dumped = eventually([&] {
                  raise(SIGINT);
                  usleep(50'000);
                  return !scratch.dump_names().empty();
              });
              wait_for_dump(titan::test::kPatienceNs);
              signal(SIGINT, SIG_DFL);
              raise(SIGINT);
              return dumped ? 2 : 3;
          }) == 1000 + SIGINT);
    // Before its second dump it has saved those who are gone.
    for (const char* dump : {"rank00001.0.titan", "rank00001.1.titan"}) {
        kill(ranks.pids[0], SIGUSR1);
        CHECK(eventually([&] { return fs::exists(scratch.dump_path(dump)); }));
    }
    CHECK(scratch.dump_names() ==
          std::vector<std::string>{"rank00000.0.titan", "rank00001.0.titan", "rank00001.1.titan"});
}

TEST_CASE("a crash of one rank dumps all, the crashed one by itself") {
    Scratch scratch;
    Ranks ranks;
    ranks.start(scratch, 2);
    kill(ranks.pids[0], SIGSEGV);
    CHECK(eventually([&] { return scratch.dump_names().size() == 2; }));
    usleep(2'500'000);
    CHECK(scratch.dump_names() == std::vector<std::string>{"rank00000.0.titan", "rank00001.0.titan"});
    CHECK(has(meta(scratch, "rank00000.0.titan"), "\"reason\":\"crash\",\"detail\":\"SIGSEGV"));
    CHECK(has(meta(scratch, "rank00001.0.titan"), "asked by rank 0 (crash: SIGSEGV"));
}

TEST_CASE("the page of an earlier run of the same name does not speak") {
    Scratch scratch;
    {
        Ranks ranks;
        ranks.start(scratch, 2);
        kill(ranks.pids[0], SIGUSR1);
        CHECK(eventually([&] { return scratch.dump_names().size() == 2; }));
    }  // both killed; the second may have seen the first one die
    const std::vector<std::string> dumped = scratch.dump_names();
    Ranks again;
    again.add(scratch, rank_environment(scratch, 1, 2));
    again.wait_until_all_record(scratch);
    usleep(2'500'000);
    CHECK(scratch.dump_names() == dumped);  // neither the old request nor the old dead
    again.end_in_order();
}

TEST_CASE("another node hears of a dump through the dump directory") {
    Scratch scratch;
    fs::create_directories(scratch.path("node0"));
    fs::create_directories(scratch.path("node1"));
    fs::create_directories(scratch.dumps() + "/test");
    // A request from before this job is history.
    FILE* old = fopen((scratch.dumps() + "/test/dump-request").c_str(), "w");
    fputs("titantrace-dump-request 1 00000000deadbeef 7 signal 1000 old\n", old);
    fclose(old);
    Ranks ranks;
    for (int rank = 0; rank < 4; ++rank) {
        auto environment = rank_environment(scratch, rank, 4);
        environment["TITANTRACE_RING_DIR"] = scratch.path(rank < 2 ? "node0" : "node1");
        environment["TORCHELASTIC_RESTART_COUNT"] = rank < 2 ? "0" : "1";  // only its node lost a rank
        ranks.add(scratch, environment);
    }
    ranks.wait_until_all_record(scratch);
    usleep(2'500'000);
    CHECK(scratch.dump_names().empty());
    kill(ranks.pids[0], SIGUSR1);
    CHECK(eventually([&] { return scratch.dump_names(0).size() == 2 && scratch.dump_names(1).size() == 2; }));
    CHECK(has(meta(scratch, "rank00001.0.titan"), "asked by rank 0 (signal"));
    CHECK(has(read_dump(scratch.dumps() + "/test/1/rank00003.0.titan").meta,
              "asked by rank 0 (signal: SIGUSR1 from pid "));
    usleep(2'500'000);
    CHECK(scratch.dump_names(0).size() + scratch.dump_names(1).size() == 4);
}

TEST_CASE("a process that leaves while it dumps does not take itself for one that is gone") {
    Scratch scratch;
    const pid_t pid = start_child(
        rank_environment(scratch, 0, 2),
        [] {
            static int claimed = 0;
            if (start_session() == nullptr || !in_job()) {
                return 99;
            }
            set_job_state(JobState::kExited);  // what the main thread does at exit
            claim_gone([](const JobProcess&) {
                ++claimed;
                return true;
            });
            return claimed;
        },
        scratch.path("errors"));
    CHECK(wait_child(pid) == 0);
}

TEST_CASE("the request file is read as strictly as it is written") {
    RemoteRequest request{0x1234, {DumpReason::kTimeout, 17, 99, 123456789, "stuck\nfor 300 s"}};
    char text[512];
    write_remote_request(request, text, sizeof(text));
    CHECK(std::string(text) == "titantrace-dump-request 1 0000000000001234 17 timeout 123456789 stuck for 300 s\n");
    RemoteRequest parsed{};
    REQUIRE(parse_remote_request(text, parsed));
    CHECK(parsed.id == 0x1234);
    CHECK(parsed.request.rank == 17);
    CHECK(parsed.request.pid == 0);
    CHECK(parsed.request.reason == DumpReason::kTimeout);
    CHECK(std::string(parsed.request.detail) == "stuck for 300 s");
    for (const char* bad :
         {"", "\n", "titantrace-dump-request 1", "titantrace-dump-request 1 12 3 timeout 5 cut off",
          "titantrace-dump-request 2 12 3 timeout 5 x\n", "titantrace-dump-request 1 xyz 3 timeout 5 x\n",
          "titantrace-dump-request 1 12 -3 timeout 5 x\n", "titantrace-dump-request 1 12 3 lunch 5 x\n",
          "titantrace-dump-request 1 0 3 timeout 5 x\n", "titantrace-dump-request 1 12 3 timeout x y\n"}) {
        CHECK_FALSE(parse_remote_request(bad, parsed));
    }
}

TEST_CASE("thousands of nodes look less often than a few") {
    constexpr uint64_t kSecondNs = 1'000'000'000;
    CHECK(look_pause_ns(16, 8) == 2 * kSecondNs);
    CHECK(look_pause_ns(3200, 8) == 2 * kSecondNs);
    CHECK(look_pause_ns(16000, 8) == 10 * kSecondNs);
    CHECK(look_pause_ns(8, 0) == 2 * kSecondNs);
    CHECK(look_pause_ns(-1, 1) == 2 * kSecondNs);
}

TEST_CASE("nodes write after a timeout one after another, the last within 15 s") {
    constexpr uint64_t kMsNs = 1'000'000;
    CHECK(turn_ns(7, 16, 8) == 0);
    CHECK(turn_ns(8, 16, 8) == 5 * kMsNs);
    CHECK(turn_ns(19'999, 20'000, 8) == 2499 * 5 * kMsNs);
    CHECK(turn_ns(99'999, 100'000, 8) <= 15'000 * kMsNs);
    CHECK(turn_ns(99'999, 100'000, 8) > 14'000 * kMsNs);
    for (const int32_t unknown : {-1, 16, 17}) {
        CHECK(turn_ns(unknown, 16, 8) == 0);
    }
    CHECK(turn_ns(1, 4, 0) == 5 * kMsNs);
    CHECK(turn_ns(3, 4, 9) == 0);
}
