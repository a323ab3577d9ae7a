// Programs that may have no more memory than they have (RLIMIT_AS, RLIMIT_DATA), also while they are dumped. What a
// dump came to is told on standard error: without the recorder there is none.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <titantrace.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "client.h"

using client::say;

namespace {

constexpr size_t kBlockBytes = 16 << 10;
constexpr size_t kLargeBytes = 256 << 10;
constexpr size_t kMostBlocks = 2048;
constexpr rlim_t kRests[] = {0, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr int kThreads = 24;

// Of a file of /proc, behind `name`. Allocates nothing: the answer would be another afterwards.
rlim_t number_in(const char* path, const char* name) {
    char text[8192] = "";
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0 && read(file, text, sizeof(text) - 1) > 0);
    close(file);
    const char* const at = std::strstr(text, name);
    REQUIRE(at != nullptr);
    return std::strtoul(at + std::strlen(name), nullptr, 10);
}

// A limit, and what counts against it.
struct Limit {
    bool of_data;

    rlim_t used() const { return number_in("/proc/self/status", of_data ? "VmData:" : "VmSize:") << 10; }
    void set(rlim_t soft) const {
        const rlimit limit{soft, RLIM_INFINITY};
        REQUIRE(setrlimit(of_data ? RLIMIT_DATA : RLIMIT_AS, &limit) == 0);
    }
    void leave(rlim_t rest) const { set(used() + rest); }
    void raise() const { set(RLIM_INFINITY); }
};

void* map(size_t bytes) {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? nullptr : mapped;
}

// How many blocks can be had now. All go back.
template <typename Take, typename Give>
size_t can_have(Take take, Give give) {
    static void* blocks[kMostBlocks];
    size_t count = 0;
    while (count < kMostBlocks && (blocks[count] = take()) != nullptr) {
        ++count;
    }
    for (size_t i = 0; i < count; ++i) {
        give(blocks[i]);
    }
    return count;
}

size_t blocks_to_map() {
    return can_have([] { return map(kBlockBytes); }, [](void* block) { munmap(block, kBlockBytes); });
}
size_t blocks_of_malloc() {
    return can_have([] { return malloc(kLargeBytes); }, [](void* block) { free(block); });
}

// What was there before a dump is there afterwards and meanwhile: a thread takes all of it again and again.
class Taker {
  public:
    explicit Taker(size_t bytes)
        : thread_([this, bytes] {
              begun_.wait(false);
              while (!over_) {
                  void* const all = map(bytes);
                  refused_ += all == nullptr ? 1 : 0;
                  if (all != nullptr) {
                      munmap(all, bytes);
                  }
                  usleep(50);
              }
          }) {}

    void begin() {
        begun_ = true;
        begun_.notify_all();
    }
    int refused() {
        over_ = true;
        thread_.join();
        return refused_;
    }

  private:
    std::atomic<bool> begun_{false};
    std::atomic<bool> over_{false};
    std::atomic<int> refused_{0};
    std::thread thread_;
};

void dump(const char* which) { std::fprintf(stderr, "dump %s: %d\n", which, titan_dump(which)); }

// Fills all rings and has threads that wait; one may work.
class Work {
  public:
    explicit Work(bool works) {
        rank_.join();
        for (int i = 0; i < 300; ++i) {
            rank_.reduce_and_sync();
        }
        for (int i = 0; i < 3000; ++i) {
            titan_step(i);
            titan_span_begin("work");
            titan_metric("loss", i);
            titan_span_end();
        }
        for (int i = 0; i < kThreads; ++i) {
            threads_.emplace_back([this, works = works && i == 0] {
                volatile unsigned turns = 0;
                while (!over_) {
                    if (works) {
                        turns = turns + 1;
                    } else {
                        pause_for_end();
                    }
                }
            });
        }
        dump("first");
    }
    ~Work() {
        over_ = true;
        over_.notify_all();
        for (std::thread& thread : threads_) {
            thread.join();
        }
        rank_.reduce_and_sync();
        rank_.leave();
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

  private:
    void pause_for_end() { over_.wait(false); }

    client::Rank rank_;
    std::atomic<bool> over_{false};
    std::vector<std::thread> threads_;
};

bool is_bad_alloc(size_t bytes) {
    try {
        char* volatile block = new char[bytes];
        delete[] block;
        return false;
    } catch (const std::bad_alloc&) {
        return true;
    }
}

int of_limit(Limit limit) {
    mallopt(M_MMAP_THRESHOLD, kLargeBytes);
    mallopt(M_ARENA_MAX, 1);
    setvbuf(stdout, nullptr, _IONBF, 0);
    const Work work(false);
    say("bad_alloc without a limit: %d", is_bad_alloc(32 << 20));
    for (const rlim_t rest : kRests) {
        limit.leave(rest);
        const size_t mapped = blocks_to_map();
        const size_t allocated = blocks_of_malloc();
        say("of %lu KiB: %zu blocks, %zu of malloc", static_cast<unsigned long>(rest >> 10), mapped, allocated);
        dump("limited");
        say("afterwards as many: %d, %d", blocks_to_map() == mapped, blocks_of_malloc() == allocated);
        say("bad_alloc of more: %d", is_bad_alloc(32 << 20));
        limit.raise();
    }
    dump("raised");
    return 0;
}

// Takes all that is left while dumps are made.
int taken(Limit limit) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    constexpr size_t kRestBytes = 1 << 20;
    const Work work(false);
    Taker taker(kRestBytes);
    limit.leave(kRestBytes);
    taker.begin();
    for (int i = 0; i < 4; ++i) {
        titan_event("from another place");
        dump("limited");
    }
    const int refused = taker.refused();
    limit.raise();
    say("%d times there was less", refused);
    dump("raised");
    return 0;
}

// Another thread lowers the limit and raises it again while dumps are being written.
int meanwhile(Limit limit) {
    const Work work(true);
    std::atomic<bool> over{false};
    std::thread other([&] {
        while (!over) {
            limit.leave(0);
            usleep(300);
            limit.raise();
            usleep(100);
        }
    });
    for (int i = 0; i < 5; ++i) {
        dump("meanwhile");
    }
    over = true;
    other.join();
    dump("raised");
    say("the limit came and went");
    return 0;
}

std::atomic<bool> at_the_end{false};
std::atomic<bool> may_return{false};

[[gnu::noinline]] void work_at_the_end() {
    at_the_end = true;
    volatile unsigned turns = 0;
    while (!may_return) {
        turns = turns + 1;
    }
}

// The main thread works where its stack ends as yet; to grow, that would need address space, and there is none.
int stack_at_its_end(Limit limit) {
    constexpr size_t kLeftBytes = 512;
    const Work work(false);
    char text[64 << 10] = "";
    const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (size_t got = 0; got < sizeof(text) - 1;) {
        const ssize_t more = read(file, text + got, sizeof(text) - 1 - got);
        if (more <= 0) {
            break;
        }
        got += static_cast<size_t>(more);
    }
    close(file);
    char* line = std::strstr(text, "[stack]");
    REQUIRE(line != nullptr);
    while (line > text && line[-1] != '\n') {
        --line;
    }
    const auto end = std::strtoul(line, nullptr, 16);
    std::thread other([&] {
        while (!at_the_end) {
            usleep(1000);
        }
        limit.leave(0);
        dump("limited");
        limit.raise();
        dump("raised");
        may_return = true;
    });
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - sizeof(text);
    REQUIRE(here > end + 4096);
    char* const below = static_cast<char*>(__builtin_alloca(here - end - 4096));
    const auto now = reinterpret_cast<uintptr_t>(below);
    REQUIRE(now > end + kLeftBytes);
    char* const rest = static_cast<char*>(__builtin_alloca(now - end - kLeftBytes));
    rest[0] = below[0] = 1;
    work_at_the_end();
    other.join();
    say("the stack is as it was: %d", rest[0]);
    return 0;
}

constexpr Limit kAddresses{false}, kData{true};
constexpr client::Scenario kScenarios[] = {
    {"addresses", [] { return of_limit(kAddresses); }},
    {"data", [] { return of_limit(kData); }},
    {"addresses_taken", [] { return taken(kAddresses); }},
    {"data_taken", [] { return taken(kData); }},
    {"addresses_meanwhile", [] { return meanwhile(kAddresses); }},
    {"data_meanwhile", [] { return meanwhile(kData); }},
    {"stack_at_its_end", [] { return stack_at_its_end(kAddresses); }},
};

}  // namespace

int main(int argc, char** argv) {
    const int status = client::run(kScenarios, argc, argv);
    say("ready");
    client::await("go");
    return status;
}
