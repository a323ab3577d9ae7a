#include "requests.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "nightly.h"
#include "scratch.h"

using namespace titan::tracer;

TEST_CASE("whoever asks while the watch thread looks for requests is answered") {
    const auto ask_often = [] {
        std::atomic<bool> over{false};
        std::thread watch([&] {
            PendingDump pending{};
            uint32_t covered = 0;
            while (!over) {
                const Requests requests = take_requests(pending, covered);
                if (requests == Requests::kTaken) {
                    mark_complete(covered, true);
                } else if (requests == Requests::kLate) {
                    mark_late(covered);
                }
            }
        });
        int unanswered = 0;
        for (int i = 0; i < titan::test::rounds(30'000, 50'000) && unanswered == 0; ++i) {
            leave_request(titan::format::DumpReason::kApi, "for the test");
            unanswered += await_complete(titan::test::kPatienceNs / 6) ? 0 : 1;
        }
        over = true;
        watch.join();
        return unanswered;
    };
    CHECK(titan::test::run_child({}, ask_often) == 0);
}
