// Requests through the ring's header, as titan-dump makes them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "requests.h"
#include "scratch.h"
#include "session.h"
#include "start_session.h"
#include "watch.h"

using namespace titan::tracer;
using titan::test::eventually;
using titan::test::has;
using titan::test::rank_environment;
using titan::test::read_dump;
using titan::test::run_child;
using titan::test::Scratch;
namespace format = titan::format;

namespace {

template <typename T>
T seen(T& field) {
    return std::atomic_ref(field).load(std::memory_order_acquire);
}

bool answered_after(format::RingHeader& header, uint64_t begun) {
    return eventually([&] { return seen(header.dumps_ended) > begun; });
}

}  // namespace

TEST_CASE("a request is taken once, and what lies there at the start is none") {
    format::RingHeader header{};
    header.dump_request = 5;
    start_answering(header);
    CHECK(header.dump_answers == 1);
    CHECK(take_outside_request(header) == 0);
    header.dump_request = format::make_dump_request(9, 4711, true);
    const uint64_t request = take_outside_request(header);
    CHECK(format::asker_of(request) == 4711);
    CHECK(format::asks_other_nodes(request));
    CHECK(take_outside_request(header) == 0);
    header.dump_request = 0;
    CHECK(take_outside_request(header) == 0);
}

TEST_CASE("the end of a dump tells that it was written, and its path, or that there is none") {
    format::RingHeader header{};
    note_dump_begun(header);
    CHECK((header.dumps_begun == 1 && header.dumps_ended == 0));
    note_dump_ended(header, "/a/rank00000.0.titan");
    CHECK((header.dumps_written == 1 && header.dumps_ended == 1));
    CHECK(std::string(header.last_dump) == "/a/rank00000.0.titan");
    note_dump_ended(header, nullptr);
    CHECK((header.dumps_written == 1 && header.dumps_ended == 2));
    CHECK(std::string(header.last_dump).empty());
    note_dump_ended(header, std::string(2000, 'x').c_str());
    CHECK(std::string(header.last_dump).empty());
}

TEST_CASE("a word in the ring asks this process for a dump, also one that hears no reason") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_DUMP_ON"] = "none";
    CHECK(run_child(environment, [&] {
              format::RingHeader& header = *start_session()->header;
              if (!eventually([&] { return seen(header.dump_answers) == 1; })) {
                  return 1;
              }
              for (uint32_t i = 1; i < 3; ++i) {
                  const uint64_t begun = seen(header.dumps_begun);
                  std::atomic_ref(header.dump_request).store(format::make_dump_request(i, 4711, false));
                  wake_watchers();
                  if (!answered_after(header, begun) ||
                      std::string(header.last_dump) !=
                          scratch.dump_path("rank00000." + std::to_string(i - 1) + ".titan")) {
                      return 2;
                  }
              }
              return std::string(header.dump_directory) == scratch.dumps() ? 0 : 3;
          }) == 0);
    CHECK(has(read_dump(scratch.dump_path("rank00000.1.titan")).meta,
              "\"reason\":\"request\",\"detail\":\"asked by titan-dump (pid 4711)\""));
}

TEST_CASE("dumps for other reasons count as answers, too") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              format::RingHeader& header = *start_session()->header;
              request_dump(format::DumpReason::kApi, "");
              return answered_after(header, 0) && seen(header.dumps_begun) == 1 ? 0 : 1;
          }) == 0);
}
