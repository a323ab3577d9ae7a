// What finding the callers costs, DEPTH frames deep: our own unwind rules beside libunwind's cached trace, both warm.
// `unwind_walks ours|libunwind N DEPTH REPEATS`: N walks inside measured() for callgrind, and the least time of one
// walk in any repeat, in nanoseconds. Both must find the same frames, or the figures would say nothing.
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "call_frame_info.h"
#include "modules.h"
#include "unwind_rules.h"

using namespace titan::tracer;

namespace {

constexpr uint32_t kRoom = 128;

struct Learned {
    std::unique_ptr<UnwindRules::Row[]> rows = std::make_unique<UnwindRules::Row[]>(UnwindRules::kRows);
    std::vector<Module> modules = std::vector<Module>(1024);
    std::vector<char> maps = std::vector<char>(64 << 10);
    ModuleList list{modules.data(), modules.size(), 0};
    UnwindRules rules;
    AddressRange stack{};

    Learned() {
        rules.start(rows.get());
        list_modules(list, maps.data(), maps.size());
        pthread_attr_t attributes;
        pthread_getattr_np(pthread_self(), &attributes);
        void* begin = nullptr;
        size_t bytes = 0;
        pthread_attr_getstack(&attributes, &begin, &bytes);
        pthread_attr_destroy(&attributes);
        stack = {reinterpret_cast<uint64_t>(begin), reinterpret_cast<uint64_t>(begin) + bytes};
    }
};
Learned* learned = nullptr;

uint32_t walk_ours(uint64_t* out) {
    for (;;) {
        const NativeWalk walk = walk_native(learned->rules, 0, {}, learned->stack, out, kRoom);
        if (walk.unknown == 0) {
            return walk.count;
        }
        const Module* const module = learned->list.find(walk.unknown);
        if (module == nullptr || !learned->rules.set(walk.unknown, read_unwind_rule(*module, walk.unknown))) {
            return 0;
        }
    }
}

uint32_t walk_libunwind(uint64_t* out) {
    const int count = unw_backtrace(reinterpret_cast<void**>(out), kRoom);
    return count > 0 ? static_cast<uint32_t>(count) : 0;
}

using Walk = uint32_t (*)(uint64_t*);

}  // namespace

// The name that callgrind's --toggle-collect is given.
extern "C" __attribute__((noinline)) uint32_t measured(Walk walk, uint64_t* out, long n) {
    uint32_t count = 0;
    for (long i = 0; i < n; ++i) {
        count = walk(out);
    }
    return count;
}

namespace {

struct Measurement {
    Walk walk;
    long n;
    double least_ns = 1e18;
    bool same = false;
};

// Of what the two say about one place: the outer frames are the same, the innermost are those that asked.
bool same_callers(uint32_t depth) {
    uint64_t ours[kRoom], theirs[kRoom];
    const uint32_t ours_count = walk_ours(ours);
    const uint32_t theirs_count = walk_libunwind(theirs);
    return ours_count >= depth && theirs_count >= depth &&
           memcmp(ours + ours_count - depth, theirs + theirs_count - depth, depth * sizeof(uint64_t)) == 0;
}

// This function, `measured` and the walk's own; main and two of the start-up.
constexpr int kOtherFrames = 6;

void measure(Measurement& of, int depth) {
    uint64_t out[kRoom];
    of.same = same_callers(static_cast<uint32_t>(depth - kOtherFrames));
    measured(of.walk, out, 64);
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    measured(of.walk, out, of.n);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double ns =
        static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 + static_cast<double>(end.tv_nsec - begin.tv_nsec);
    of.least_ns = ns / static_cast<double>(of.n) < of.least_ns ? ns / static_cast<double>(of.n) : of.least_ns;
}

// Not by tail calls: each has a frame of its own.
__attribute__((noinline)) void at_depth(Measurement& of, int more, int depth) {
    volatile char frame[40];
    frame[0] = static_cast<char>(more);
    if (more > 0) {
        at_depth(of, more - 1, depth);
    } else {
        measure(of, depth);
    }
    frame[1] = frame[0];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5 || (strcmp(argv[1], "ours") != 0 && strcmp(argv[1], "libunwind") != 0)) {
        fprintf(stderr, "usage: unwind_walks ours|libunwind N DEPTH REPEATS\n");
        return 2;
    }
    learned = new Learned;
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
    Measurement of{strcmp(argv[1], "ours") == 0 ? walk_ours : walk_libunwind, atol(argv[2])};
    const int depth = atoi(argv[3]);
    for (int i = 0; i < atoi(argv[4]); ++i) {
        at_depth(of, depth - kOtherFrames - 1, depth);
        if (!of.same) {
            fprintf(stderr, "unwind_walks: the two found other callers\n");
            return 1;
        }
    }
    printf("%.2f\n", of.least_ns);
    return 0;
}
