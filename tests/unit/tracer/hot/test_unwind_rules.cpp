#include <doctest/doctest.h>
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "base/own_memory.h"
#include "call_frame_info.h"
#include "modules.h"
#include "unwind_rules.h"

using namespace titan;
using tracer::AddressRange;
using tracer::UnwindRule;
using tracer::UnwindRules;

namespace {

// Rules of this very program, learned as the tracer learns them.
struct Learner {
    std::unique_ptr<UnwindRules::Row[]> rows = std::make_unique<UnwindRules::Row[]>(UnwindRules::kRows);
    std::vector<tracer::Module> modules = std::vector<tracer::Module>(1024);
    std::vector<char> maps = std::vector<char>(64 << 10);
    tracer::ModuleList list{modules.data(), modules.size(), 0};
    OwnMemory memory;  // by a file where process_vm_readv is refused, or missing (qemu-user)
    UnwindRules rules;
    int learned = 0;

    Learner() {
        rules.start(rows.get());
        tracer::list_modules(list, maps.data(), maps.size());
    }
};

AddressRange own_stack() {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    void* begin = nullptr;
    size_t bytes = 0;
    pthread_attr_getstack(&attributes, &begin, &bytes);
    pthread_attr_destroy(&attributes);
    return {reinterpret_cast<uint64_t>(begin), reinterpret_cast<uint64_t>(begin) + bytes};
}

[[gnu::noinline]] tracer::NativeWalk learned_walk(Learner& learner, AddressRange own, AddressRange stack,
                                                  uint64_t* addresses, uint32_t capacity) {
    for (;;) {
        const tracer::NativeWalk walk = tracer::walk_native(learner.rules, 0, own, stack, addresses, capacity);
        if (walk.unknown == 0) {
            return walk;
        }
        const tracer::Module* const module = learner.list.find(walk.unknown);
        REQUIRE(module != nullptr);
        REQUIRE(learner.rules.set(walk.unknown, tracer::read_unwind_rule(*module, walk.unknown)));
        ++learner.learned;
    }
}

struct Seen {
    std::vector<uint64_t> ours;
    std::vector<uint64_t> glibc;
    bool cut = true;
};

[[gnu::noinline]] void look(Learner& learner, Seen& seen) {
    uint64_t addresses[200];
    const tracer::NativeWalk walk = learned_walk(learner, {}, own_stack(), addresses, 200);
    seen.ours.assign(addresses, addresses + walk.count);
    seen.cut = walk.cut;
    void* found[200];
    const int count = backtrace(found, 200);
    for (int i = 0; i < count; ++i) {
        seen.glibc.push_back(reinterpret_cast<uint64_t>(found[i]));
    }
    // Both begin in this function at calls of their own, ours goes through its helper; a sanitizer's backtrace has
    // frames of its own before.
    constexpr size_t kOurs = 2;
    REQUIRE(seen.ours.size() > kOurs);
    REQUIRE(seen.glibc.size() >= seen.ours.size() - kOurs);
    seen.ours.erase(seen.ours.begin(), seen.ours.begin() + kOurs);
    seen.glibc.erase(seen.glibc.begin(), seen.glibc.end() - static_cast<std::ptrdiff_t>(seen.ours.size()));
}

volatile int sink = 0;

[[gnu::noinline]] void with_variable_frame(Learner& learner, Seen& seen, size_t bytes) {
    auto* const room = static_cast<volatile char*>(__builtin_alloca(bytes));
    room[0] = 1;
    look(learner, seen);
    sink = room[0];
}

[[gnu::noinline]] void with_large_frame(Learner& learner, Seen& seen) {
    volatile char room[100'000];
    room[0] = 1;
    look(learner, seen);
    sink = room[0];
}

[[gnu::noinline]] void with_realigned_frame(Learner& learner, Seen& seen, size_t bytes) {
    alignas(128) volatile char room[256];
    auto* const more = static_cast<volatile char*>(__builtin_alloca(bytes));
    room[0] = 1;
    more[0] = 1;
    look(learner, seen);
    sink = room[0] + more[0];
}

[[gnu::noinline]] void recurse(Learner& learner, Seen& seen, int depth) {
    depth == 0 ? look(learner, seen) : recurse(learner, seen, depth - 1);
    sink = sink + 1;
}

[[gnu::noinline, noreturn]] void look_and_throw(Learner& learner, Seen& seen) {
    look(learner, seen);
    throw 1;
}

// The call is its last instruction: the address behind it is another function's.
[[gnu::noinline]] void calls_what_never_returns(Learner& learner, Seen& seen) { look_and_throw(learner, seen); }

}  // namespace

TEST_CASE("the walk finds what glibc's unwinder finds, whatever the frames look like") {
    Learner learner;
    const auto check = [&](auto&& call) {
        Seen seen;
        call(seen);
        CHECK(seen.ours.size() > 3);
        CHECK(seen.ours == seen.glibc);
        CHECK(!seen.cut);
    };
    check([&](Seen& seen) { look(learner, seen); });
    check([&](Seen& seen) { recurse(learner, seen, 24); });
    check([&](Seen& seen) { with_variable_frame(learner, seen, 1000); });
    check([&](Seen& seen) { with_large_frame(learner, seen); });
    check([&](Seen& seen) { with_realigned_frame(learner, seen, 100); });
    check([&](Seen& seen) { CHECK_THROWS(calls_what_never_returns(learner, seen)); });
    check([&](Seen& seen) { std::thread([&] { recurse(learner, seen, 3); }).join(); });
    check([&](Seen& seen) {
        std::vector<int> two{1, 2};
        std::sort(two.begin(), two.end(), [&](int a, int b) {
            seen = {};
            with_variable_frame(learner, seen, 64);
            return a < b;
        });
    });
}

TEST_CASE("each address is learned once") {
    Learner learner;
    for (int round = 0; round < 3; ++round) {
        Seen seen;
        recurse(learner, seen, 10);
    }
    const int learned = learner.learned;
    Seen seen;
    recurse(learner, seen, 40);
    CHECK(learner.learned <= learned + 2);  // this call, and the end of a recursion that is not its beginning
}

TEST_CASE("nothing is read outside of the stack that is given") {
    Learner learner;
    uint64_t addresses[8];
    const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
    CHECK(learned_walk(learner, {}, {}, addresses, 8).count == 0);
    CHECK(learned_walk(learner, {}, {here - 100'000, here - 50'000}, addresses, 8).count == 0);
    // Of a stack that ends soon only what lies in it: the frames of this file, and not the way to them.
    const tracer::NativeWalk cut = learned_walk(learner, {}, {here - 100'000, here + 64}, addresses, 8);
    CHECK((cut.count > 0 && cut.count < 4 && cut.cut));
}

TEST_CASE("own frames are left out, and the room is a limit") {
    Learner learner;
    const tracer::Module* const program = learner.list.find(reinterpret_cast<uint64_t>(&sink));
    REQUIRE(program != nullptr);
    uint64_t addresses[200];
    const tracer::NativeWalk walk = learned_walk(learner, {program->begin, program->end}, own_stack(), addresses, 200);
    CHECK(walk.count > 0);
    CHECK(std::none_of(addresses, addresses + walk.count,
                       [&](uint64_t address) { return address >= program->begin && address < program->end; }));
    const tracer::NativeWalk two = learned_walk(learner, {}, own_stack(), addresses, 2);
    CHECK((two.count == 2 && two.cut));
}

TEST_CASE("code of no module is asked for again only when there are other modules") {
    Learner learner;
    Seen seen;
    look(learner, seen);
    const uint64_t address = seen.ours.front();
    learner.rules.set(address, {.kind = UnwindRule::kUnknown, .frame_words = 7});
    CHECK(learner.rules.find(address).kind == UnwindRule::kUnknown);
    UnwindRule stop{UnwindRule::kStop};
    CHECK(learner.rules.set(address, stop));
    CHECK(learner.rules.find(address).kind == UnwindRule::kStop);
}

TEST_CASE("a full table of rules takes no more, and keeps what it has") {
    Learner learner;
    uint64_t refused = 0;
    for (uint64_t i = 1; i <= UnwindRules::kRows; ++i) {
        refused += learner.rules.set(i * 4096, {UnwindRule::kStop}) ? 0 : 1;
    }
    CHECK(refused >= UnwindRules::kRows / 4);
    CHECK(learner.rules.find(4096).kind == UnwindRule::kStop);
    CHECK(learner.rules.find(UnwindRules::kRows * 4096).kind == UnwindRule::kNone);
}

TEST_CASE("modules without unwind tables, or with damaged ones, stop the walk") {
    Learner learner;
    const tracer::Module* const program = learner.list.find(reinterpret_cast<uint64_t>(&sink));
    REQUIRE(program != nullptr);
    const auto code = reinterpret_cast<uint64_t>(&own_stack) + 8;
    CHECK(tracer::read_unwind_rule(*program, code).kind != UnwindRule::kStop);
    tracer::Module damaged = *program;
    damaged.eh_frame_hdr = 0;
    CHECK(tracer::read_unwind_rule(damaged, code).kind == UnwindRule::kStop);
    damaged.eh_frame_hdr = 64;  // nothing is mapped there
    CHECK(tracer::read_unwind_rule(damaged, code).kind == UnwindRule::kStop);
    damaged.eh_frame_hdr = reinterpret_cast<uint64_t>(learner.maps.data());
    CHECK(tracer::read_unwind_rule(damaged, code).kind == UnwindRule::kStop);
    CHECK(tracer::read_unwind_rule(*program, program->end + 4096).kind == UnwindRule::kStop);
}
