#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/clock.h"
#include "dump_files.h"
#include "scratch.h"
#include "session.h"
#include "start_session.h"
#include "watch.h"

using namespace titan;
using namespace titan::tracer;
using titan::test::eventually;
using titan::test::has;
using titan::test::kPatienceNs;
using titan::test::rank_environment;
using titan::test::read_dump;
using titan::test::run_child;
using titan::test::Scratch;
namespace format = titan::format;

namespace {

// As if a thread had entered a blocking call just now.
format::ThreadRecord& enter_stuck_call(Session& session, uint64_t row, const char* name) {
    format::ThreadRecord& record = session.threads[row];
    std::atomic_ref(record.thread).store(4711);
    std::atomic_ref(record.call).store(session.strings.intern(name));
    std::atomic_ref(record.entered_ticks).store(now_ticks(), std::memory_order_release);
    return record;
}

bool has_begun_a_dump(const Session& session) {
    return eventually([&] { return std::atomic_ref(session.ring_file.header->dumps_begun).load() == 1; });
}

}  // namespace

TEST_CASE("the heart beats and the anchor moves") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [] {
              Session* session = start_session();
              format::RingHeader& header = *session->ring_file.header;
              uint64_t beat = std::atomic_ref(header.heartbeat_ticks).load();
              uint64_t moment = std::atomic_ref(header.last_anchor.realtime_ns).load();
              return eventually([&] {
                  return std::atomic_ref(header.heartbeat_ticks).load() > beat + ns_to_ticks(900'000'000) &&
                         std::atomic_ref(header.last_anchor.realtime_ns).load() > moment;
              })
                         ? 0
                         : 1;
          }) == 0);
}

TEST_CASE("a call past the timeout is dumped once, the next one again") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_TIMEOUT_S"] = "0.4";
    CHECK(run_child(environment, [&] {
              Session* session = start_session();
              auto& record = enter_stuck_call(*session, 500, "ncclCommInitRank");
              if (!eventually([&] { return scratch.dump_names().size() == 1; })) {
                  return 1;
              }
              usleep(1'000'000);
              if (scratch.dump_names().size() != 1) {
                  return 2;
              }
              usleep(5'000'000);  // else it would join the first dump
              std::atomic_ref(record.entered_ticks).store(now_ticks());
              return eventually([&] { return scratch.dump_names().size() == 2; }) ? 0 : 3;
          }) == 0);
    auto dump = read_dump(scratch.dump_path("rank00000.0.titan"));
    CHECK(has(dump.meta, "\"reason\":\"timeout\",\"detail\":\"thread 4711 inside ncclCommInitRank for "));
}

TEST_CASE("a creation that the program asks about without waiting for it is dumped once") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_TIMEOUT_S"] = "0.4";
    CHECK(run_child(environment, [&] {
              start_session();
              const char id[128] = "an id";
              int handle = 0;
              void* made = &handle;
              Call call;
              if (!enter_create(call, 0, {.kind = format::OpKind::kCommInit, .unique_id = id, .size = 2, .rank = 0})) {
                  return 1;
              }
              leave_create(call, &made, kInProgress);
              usleep(1'500'000);
              if (!scratch.dump_names().empty()) {
                  return 2;  // nobody waits for it
              }
              const auto ask = [&] { note_async_error(made, kSuccess, kInProgress); };
              if (!eventually([&] { return ask(), scratch.dump_names().size() == 1; })) {
                  return 3;
              }
              const uint64_t until_ns = monotonic_now_ns() + 6'000'000'000;  // earlier, it would join the first dump
              while (monotonic_now_ns() < until_ns) {
                  ask();
                  usleep(20'000);
              }
              return scratch.dump_names().size() == 1 ? 0 : 4;
          }) == 0);
    auto dump = read_dump(scratch.dump_path("rank00000.0.titan"));
    CHECK(has(dump.meta, "\"reason\":\"timeout\",\"detail\":\"the creation of communicator "));
}

TEST_CASE("in a large job the dump of a timeout is copied at once, and written when it is this node's turn") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 400, 1000);  // each alone on its node: the turn comes after 2 s
    environment["TITANTRACE_TIMEOUT_S"] = "0.4";
    CHECK(run_child(environment, [&] {
              Session* session = start_session();
              enter_stuck_call(*session, 500, "ncclCommInitRank");
              if (!has_begun_a_dump(*session)) {
                  return 1;
              }
              const uint64_t begun_ns = monotonic_now_ns();
              if (!eventually([&] { return scratch.dump_names().size() == 1; })) {
                  return 2;
              }
              return monotonic_now_ns() - begun_ns > 1'000'000'000 ? 0 : 3;
          }) == 0);
}

TEST_CASE("a dump that waits for its turn is written when the process is about to end") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 900'000, 1'000'000);  // after 13.5 s
    environment["TITANTRACE_TIMEOUT_S"] = "0.4";
    CHECK(run_child(environment, [&] {
              Session* session = start_session();
              enter_stuck_call(*session, 500, "ncclCommInitRank");
              if (!has_begun_a_dump(*session) || !scratch.dump_names().empty()) {
                  return 1;
              }
              on_process_exit(0);
              return 0;
          }) == 0);
    CHECK(has(read_dump(scratch.dump_path("rank900000.0.titan")).meta, "\"reason\":\"timeout\""));
}

TEST_CASE("a failure just after a dump on purpose is dumped, too") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              request_dump(format::DumpReason::kApi, "");
              if (!wait_for_dump(kPatienceNs)) {
                  return 1;
              }
              on_process_exit(3);
              return 0;
          }) == 0);
    CHECK(scratch.dump_names() == std::vector<std::string>{"rank00000.0.titan", "rank00000.1.titan"});
    CHECK(
        has(read_dump(scratch.dump_path("rank00000.1.titan")).meta, "\"reason\":\"end\",\"detail\":\"exit status 3\""));
}

TEST_CASE("dumps on purpose do not push out the evidence of a hang") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_KEEP"] = "2";
    CHECK(run_child(environment, [&] {
              start_session();
              const format::DumpReason reasons[] = {format::DumpReason::kAbort, format::DumpReason::kApi,
                                                    format::DumpReason::kApi, format::DumpReason::kApi,
                                                    format::DumpReason::kApi};
              for (format::DumpReason reason : reasons) {
                  request_dump(reason, "");
                  if (!wait_for_dump(kPatienceNs)) {
                      return 1;
                  }
              }
              return 0;
          }) == 0);
    CHECK(scratch.dump_names() ==
          std::vector<std::string>{"rank00000.0.titan", "rank00000.3.titan", "rank00000.4.titan"});
}

TEST_CASE("the dump of a hang stays while its incident goes on") {
    using titan::tracer::Evidence;
    titan::tracer::EvidenceNumbers numbers;
    constexpr auto kNone = titan::tracer::EvidenceNumbers::kNone;
    constexpr uint32_t kKeep = 3;
    // Two hangs that passed by, and one that an abort ends; what hangs after that is its aftermath.
    CHECK(numbers.add(0, Evidence::kHang, kKeep) == kNone);
    CHECK(numbers.add(4, Evidence::kHang, kKeep) == kNone);
    CHECK(numbers.add(5, Evidence::kHang, kKeep) == kNone);
    CHECK(numbers.add(6, Evidence::kEnd, kKeep) == 0);
    CHECK(numbers.add(7, Evidence::kHang, kKeep) == 4);
    CHECK(numbers.add(8, Evidence::kHang, kKeep) == 7);
    CHECK(numbers.add(9, Evidence::kEnd, kKeep) == 8);
    CHECK(numbers.holds(5));
    // One that is kept is the newest.
    titan::tracer::EvidenceNumbers one;
    CHECK(one.add(0, Evidence::kHang, 1) == kNone);
    CHECK(one.add(1, Evidence::kEnd, 1) == 0);
}

TEST_CASE("the way out is the TMPDIR of the beginning: programs change their environment while we dump") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_DIR"] = "/proc/no/such/place";
    environment["TMPDIR"] = scratch.path("");
    CHECK(run_child(environment, [&] {
              start_session();
              setenv("TMPDIR", "/proc", 1);
              request_dump(format::DumpReason::kApi, "");
              return wait_for_dump(kPatienceNs) ? 0 : 1;
          }) == 0);
}

TEST_CASE("a program that has used up its file descriptors gets its dump") {
    for (const rlim_t hard_limit : {rlim_t{256}, rlim_t{300}}) {  // the soft limit is left alone
        CAPTURE(hard_limit);
        Scratch scratch;
        CHECK(run_child(rank_environment(scratch, 0), [&] {
                  const rlimit limit{256, hard_limit};
                  setrlimit(RLIMIT_NOFILE, &limit);
                  start_session();
                  int taken = 0;
                  while (open("/dev/null", O_RDONLY) >= 0) {
                      ++taken;
                  }
                  if (taken < 200) {
                      return 1;
                  }
                  for (int dump = 0; dump < 2; ++dump) {  // the room is there again
                      request_dump(format::DumpReason::kApi, "");
                      if (!wait_for_dump(kPatienceNs)) {
                          return 2 + dump;
                      }
                  }
                  return eventually([] {
                      rlimit after{};
                      return getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == 256;
                  })
                             ? 0
                             : 4;
              }) == 0);
        CHECK(scratch.dump_names().size() == 2);
    }
}

TEST_CASE("reasons that are not asked for are not heard") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_DUMP_ON"] = "none";
    environment["TITANTRACE_TIMEOUT_S"] = "0.2";
    CHECK(run_child(environment, [&] {
              Session* session = start_session();
              enter_stuck_call(*session, 500, "ncclCommInitRank");
              request_dump(format::DumpReason::kAbort, "");
              usleep(700'000);
              return wait_for_dump(0) && scratch.dump_names().empty() ? 0 : 1;
          }) == 0);
}

TEST_CASE("a dump at exit, on request") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_DUMP_ON"] = "exit";
    CHECK(run_child(environment, [&] {
              start_session();
              on_process_exit(-1);
              return 0;
          }) == 0);
    CHECK(has(read_dump(scratch.dump_path("rank00000.0.titan")).meta, "\"reason\":\"exit\""));
}

TEST_CASE("after a clean end without a dump nothing is left") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              if (titan::test::list_dir(scratch.ring_dir()).size() != 2) {
                  return 1;
              }
              on_process_exit(-1);
              return 0;
          }) == 0);
    CHECK(titan::test::list_dir(scratch.ring_dir()).empty());
}
