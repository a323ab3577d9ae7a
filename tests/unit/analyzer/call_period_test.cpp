// After how many calls a sequence repeats, against the definition tried out period by period.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "call_period.h"
#include "decode_timing.h"

using titan::analyzer::call_period;
using titan::analyzer::CallPeriod;

namespace {

std::vector<uint64_t> repeated(const std::vector<uint64_t>& before, const std::vector<uint64_t>& step, size_t times) {
    std::vector<uint64_t> calls = before;
    for (size_t i = 0; i < times; ++i) {
        calls.insert(calls.end(), step.begin(), step.end());
    }
    return calls;
}

CallPeriod tried_out(const std::vector<uint64_t>& calls, size_t end) {
    CallPeriod best;
    for (size_t period = 1; period < end; ++period) {
        size_t covered = period;
        while (covered < end && calls[end - 1 - covered] == calls[end - 1 - (covered - period)]) {
            ++covered;
        }
        if (covered >= 3 * period && 4 * covered >= calls.size() && covered > best.covered) {
            best = {period, covered, calls.size() - end};
        }
    }
    return best;
}

CallPeriod tried_out(const std::vector<uint64_t>& calls) {
    CallPeriod best = tried_out(calls, calls.size());
    best = best.calls == 0 ? tried_out(calls, calls.size() - calls.size() / 8) : best;
    while (best.behind != 0 && calls[calls.size() - best.behind] == calls[calls.size() - best.behind - best.calls]) {
        ++best.covered;
        --best.behind;
    }
    return best;
}

}  // namespace

TEST_CASE("call periods: layers that are alike do not hide the step") {
    // FSDP: all_gathers of equal layers, reduce_scatters, one all_reduce.
    const std::vector<uint64_t> step = {7, 7, 7, 7, 7, 7, 7, 7, 9, 9, 9, 9, 9, 9, 9, 9, 3};
    const CallPeriod period = call_period(repeated({1, 2, 1, 5}, step, 6));
    CHECK(period.calls == step.size());
    CHECK(period.covered == 6 * step.size());
    // A step that is cut off at its begin or its end has the same period.
    std::vector<uint64_t> cut = repeated({}, step, 6);
    cut.resize(cut.size() - 5);
    CHECK(call_period({cut.begin() + 3, cut.end()}).calls == step.size());
}

TEST_CASE("call periods: what a program does behind its last step hides no period") {
    const std::vector<uint64_t> step = {7, 7, 7, 9, 9, 9, 3};
    std::vector<uint64_t> calls = repeated({1, 2, 1, 5}, step, 10);
    calls.insert(calls.end(), {7, 7, 4, 4, 4});  // it begins a step, and evaluates instead
    const CallPeriod period = call_period(calls);
    CHECK(period.calls == step.size());
    CHECK(period.covered == 10 * step.size() + 2);
    CHECK(period.behind == 3);
    calls.insert(calls.end(), 40, 4);
    CHECK(call_period(calls).calls == 1);  // a quarter of all: the evaluation is what repeats
}

TEST_CASE("call periods: none where nothing repeats often enough") {
    CHECK(call_period({}).calls == 0);
    CHECK(call_period({4}).calls == 0);
    CHECK(call_period({1, 2, 1, 2}).calls == 0);                                          // twice
    CHECK(call_period({1, 2, 1, 2, 1, 2}).calls == 2);                                    // three times
    CHECK(call_period({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 2, 2, 2}).calls == 0);  // less than a quarter
    std::vector<uint64_t> all_apart;
    for (uint64_t i = 0; i < 100; ++i) {
        all_apart.push_back(i);
    }
    CHECK(call_period(all_apart).calls == 0);
}

TEST_CASE(
    "call periods: ranks that do the same begin their steps at the same call, whatever their communicators' ids") {
    using namespace titan::analyzer;
    // Sharded in two, replicated in two: three calls on the one, two on the other.
    const auto first_calls = [](uint64_t shard_id, uint64_t replicate_id) {
        Process process;
        process.members.resize(2);
        process.members[0].id = shard_id;
        process.members[1].id = replicate_id;
        process.members[0].size = process.members[1].size = 2;
        uint64_t calls[2] = {};
        for (int step = 0; step < 10; ++step) {
            for (const uint32_t row : {0, 0, 1, 0, 1}) {
                Entry entry;
                entry.row = row;
                entry.kind = titan::format::OpKind::kAllReduce;
                entry.count = process.entries.size() % 5 + 1;
                entry.sequence = calls[row]++;
                entry.entered_ns = static_cast<int64_t>(process.entries.size() + 1) * 1000;
                process.entries.push_back(entry);
            }
        }
        std::vector<std::pair<int32_t, int64_t>> steps;
        for (const StepProfile& step : steps_by_period(process, {}, 0)) {
            steps.emplace_back(step.step, step.begin_ns);
        }
        return steps;
    };
    CHECK(first_calls(1, 2).size() > 3);
    CHECK(first_calls(1, 2) == first_calls(2, 1));
}

TEST_CASE("call periods: the sends to one rank count the steps of a program without collectives") {
    using namespace titan::analyzer;
    using titan::format::OpKind;
    // A stage that is two micro-batches ahead of what comes back to it.
    Process process;
    process.members.resize(1);
    uint64_t sent = 0, received = 0;
    const auto call = [&](OpKind kind, uint64_t number) {
        Entry entry;
        entry.row = 0;
        entry.kind = kind;
        entry.peer = kind == OpKind::kSend ? 1 : 3;
        entry.sequence = number;
        entry.entered_ns = static_cast<int64_t>(process.entries.size() + 1) * 1000;
        process.entries.push_back(entry);
    };
    call(OpKind::kSend, sent++);
    call(OpKind::kSend, sent++);
    for (int step = 0; step < 10; ++step) {
        call(OpKind::kRecv, received++);
        call(OpKind::kSend, sent++);
    }
    const std::vector<StepProfile> steps = steps_by_period(process, {}, 0);
    REQUIRE(steps.size() >= 9);
    for (const StepProfile& step : steps) {
        const Entry& begins = process.entries[static_cast<size_t>(step.begin_ns / 1000) - 1];
        CHECK(begins.kind == OpKind::kSend);
        CHECK(begins.sequence == static_cast<uint64_t>(step.step));
    }
}

TEST_CASE("call periods: any sequence") {
    std::mt19937_64 random(5);
    for (int round = 0; round < 3000; ++round) {
        std::vector<uint64_t> before, step;
        const uint64_t kinds = 1 + random() % 4;
        for (uint64_t i = random() % 12; i > 0; --i) {
            before.push_back(random() % kinds);
        }
        for (uint64_t i = 1 + random() % 8; i > 0; --i) {
            step.push_back(random() % kinds);
        }
        std::vector<uint64_t> calls = repeated(before, step, random() % 6);
        for (uint64_t i = random() % 4; i > 0; --i) {
            calls.push_back(random() % 5);
        }
        const CallPeriod found = call_period(calls), expected = tried_out(calls);
        CHECK(found.calls == expected.calls);
        CHECK(found.covered == expected.covered);
        CHECK(found.behind == expected.behind);
    }
}
