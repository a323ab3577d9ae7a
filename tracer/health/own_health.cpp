#include "own_health.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "base/process.h"
#include "base/text.h"
#include "control_group.h"
#include "rooted_path.h"

namespace titan::tracer {

namespace {

// A row is written where a reading is missing, too: it may be what one looks for.
void note_unreadable(HealthLog& log, const char* name) { log.note(name, 0, 0); }

// The CPU on which the main thread runs now (proc(5): fields 3 and 39 of /proc/PID/stat), -1 while it waits.
int running_cpu(const char* root) {
    constexpr int kState = 3;
    constexpr int kProcessor = 39;
    char text[1024] = "";
    read_small_file(AT_FDCWD, RootedPath(root, "/proc/self/stat").text, text, sizeof(text));
    const char* at = strrchr(text, ')');  // the name before it may hold anything
    for (int field = kState - 1; at != nullptr && field < kProcessor; ++field) {
        at = strchr(at + 1, ' ');
        if (at != nullptr && field == kState - 1 && at[1] != 'R') {
            return -1;
        }
    }
    return at == nullptr ? -1 : static_cast<int>(strtol(at + 1, nullptr, 10));
}

double read_clock_mhz(const char* root, int cpu, const char* file) {
    char path[96];
    char text[32] = "";
    format_text(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, file);
    read_small_file(AT_FDCWD, RootedPath(root, path).text, text, sizeof(text));
    return static_cast<double>(strtoull(text, nullptr, 10)) / 1000;
}

}  // namespace

void read_control_group(const char* root, HealthLog& log) {
    const MemoryEvents events = read_memory_events(root);
    if (!events.is_readable) {
        note_unreadable(log, "cgroup.memory_events_readable");
        return;
    }
    log.note("cgroup.memory_high", static_cast<double>(events.high), 0);
    log.note("cgroup.memory_max", static_cast<double>(events.max), 0);
    log.note("cgroup.ooms", static_cast<double>(events.oom), 0);
    log.note("cgroup.oom_kills", static_cast<double>(events.oom_kills), 0);
}

void CpuClock::read(const char* root, HealthLog& log) {
    constexpr double kNoiseMhz = 200;
    const int cpu = running_cpu(root);
    if (cpu < 0) {
        return;
    }
    const double now_mhz = read_clock_mhz(root, cpu, "scaling_cur_freq");
    if (now_mhz <= 0) {
        note_unreadable(log, "cpu.clock_readable");
        return;
    }
    samples_mhz_[count_++ % kSamples] = now_mhz;
    const uint32_t known = std::min(count_, kSamples);
    double sorted[kSamples];
    std::copy_n(samples_mhz_, known, sorted);
    std::nth_element(sorted, sorted + known / 2, sorted + known);
    log.note("cpu.clock_mhz", sorted[known / 2], kNoiseMhz);
    log.note("cpu.max_clock_mhz", read_clock_mhz(root, cpu, "cpuinfo_max_freq"), 0);
}

}  // namespace titan::tracer
