// A program that marks all that it does, for days of a clock that runs fast (fast_clock.c). After each hour it tells
// what it takes of the machine, and what lies in the directory of the dumps.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <titantrace.h>

#include <algorithm>

#include "client.h"

using client::say;

namespace {

constexpr double kHourS = 3600;
constexpr double kStepS = 2;
constexpr int kLooks = 10;

double now_s() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Entries of a directory, and the bytes of its files.
struct Entries {
    int count = 0;
    long bytes = 0;
};

Entries entries(const std::string& path) {
    Entries all;
    DIR* const directory = opendir(path.c_str());
    while (directory != nullptr) {
        const dirent* const entry = readdir(directory);
        if (entry == nullptr) {
            closedir(directory);
            break;
        }
        struct stat status {};
        if (entry->d_name[0] != '.' && fstatat(dirfd(directory), entry->d_name, &status, 0) == 0) {
            ++all.count;
            all.bytes += status.st_size;
        }
    }
    return all;
}

long kib_in_status(const char* name) {
    char text[4096] = "";
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0 && read(file, text, sizeof(text) - 1) > 0);
    close(file);
    const char* const at = std::strstr(text, name);
    REQUIRE(at != nullptr);
    return std::atol(at + std::strlen(name));
}

// Files that are open for a moment and threads that are about to end do not count.
int least_entries(const char* path) {
    int least = entries(path).count;
    for (int i = 1; i < kLooks; ++i) {
        usleep(static_cast<useconds_t>(kStepS * 1e6));
        least = std::min(least, entries(path).count);
    }
    return least;
}

void tell(int hour, long steps) {
    const Entries files = entries(std::string(std::getenv("TITANTRACE_DIR")) + "/e2e/0");
    say("hour %d: %ld steps, %ld KiB of memory, %ld KiB of addresses, %d descriptors, %d threads, %d files, %ld bytes",
        hour, steps, kib_in_status("VmRSS:"), kib_in_status("VmSize:"), least_entries("/proc/self/fd"),
        least_entries("/proc/self/task"), files.count, files.bytes);
}

// Names, texts and numbers of their own: what a journal cannot make small, and what must not be kept for ever.
struct Different {
    unsigned long state = 1;

    unsigned long next() { return state = state * 6364136223846793005 + 1442695040888963407; }
    double number() { return static_cast<double>(next() >> 11); }
    const char* text() {
        for (size_t i = 0; i < sizeof(text_) - 1; ++i) {
            text_[i] = static_cast<char>('a' + (next() >> 33) % 26);
        }
        return text_;
    }

  private:
    char text_[201] = {};
};

int live() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    const auto run = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "run_fast_clock"));
    REQUIRE(run != nullptr);
    run();
    const int hours = client::number("GUEST_HOURS", 24);
    const int numbers = client::number("GUEST_NUMBERS", 20);
    Different different;
    const double began_s = now_s();
    long step = 0;
    for (int hour = 1; hour <= hours; ++hour) {
        double at_s = now_s();
        for (; at_s < began_s + hour * kHourS; at_s = now_s()) {
            titan_step(++step);
            titan_span_begin("step");
            titan_span_begin("forward");
            r.all_reduce();
            titan_span_end();
            const uint64_t span = titan_span_open("optimizer", nullptr);
            titan_attribute_text(span, "shard", different.text());
            titan_span_close(span, nullptr);
            for (int i = 0; i < numbers; ++i) {
                titan_metric("loss", different.number());
            }
            titan_event(different.text());
            r.sync();
            titan_span_end();
            usleep(static_cast<useconds_t>(kStepS * 1e6));
        }
        tell(hour, step);
    }
    usleep(static_cast<useconds_t>(kHourS / 20 * 1e6));  // three times the period of the journal
    r.leave();
    say("all hours are over");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"live", live}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
