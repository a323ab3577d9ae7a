#include "processors.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/process.h"
#include "control_group.h"

namespace titan::tracer {
namespace {

constexpr size_t kMostReadThreads = 64;
constexpr size_t kMostGroups = 16;  // nesting depth

// The digits at `at`, which is moved past them; false where there are none.
bool take_number(const char*& at, uint64_t& value) {
    const char* const begin = at;
    value = 0;
    for (; *at >= '0' && *at <= '9' && value < UINT64_MAX / 10 - 1; ++at) {
        value = value * 10 + static_cast<uint64_t>(*at - '0');
    }
    return at != begin;
}

uint32_t narrow(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)); }

void write_process_dir(TextWriter& path, pid_t pid) {
    pid == 0 ? path.text("/proc/self") : path.format("/proc/%d", pid);
}

// "12.34 8.10 4.00 3/900 4711"
void read_load(ProcessorUse& use) {
    char text[96];
    read_small_file(AT_FDCWD, "/proc/loadavg", text, sizeof(text));
    const char* at = text;
    for (uint32_t& load_cent : use.load_cent) {
        uint64_t whole = 0;
        uint64_t cent = 0;
        if (!take_number(at, whole) || *at++ != '.' || !take_number(at, cent)) {
            return;
        }
        load_cent = narrow(std::min<uint64_t>(whole, UINT32_MAX) * 100 + std::min<uint64_t>(cent, 99));
        at += *at == ' ' ? 1 : 0;
    }
    use.has_load = true;
}

uint32_t allowed_processors(pid_t pid) {
    uint64_t mask[128];  // room for 8,192 processors
    const long bytes = syscall(SYS_sched_getaffinity, pid, sizeof(mask), mask);
    uint32_t count = 0;
    for (long i = 0; i < bytes / static_cast<long>(sizeof(mask[0])); ++i) {
        count += static_cast<uint32_t>(__builtin_popcountll(mask[i]));
    }
    return count;
}

// "run_ns delay_ns slices"
void add_times(pid_t pid, uint32_t tid, ProcessorUse& use) {
    char path[64];
    char text[96];
    TextWriter writer(path, sizeof(path));
    write_process_dir(writer, pid);
    writer.format("/task/%u/schedstat", tid);
    read_small_file(AT_FDCWD, path, text, sizeof(text));
    const char* at = text;
    uint64_t run_ns = 0;
    uint64_t delay_ns = 0;
    if (take_number(at, run_ns) && *at++ == ' ' && take_number(at, delay_ns)) {
        use.run_ns += run_ns;
        use.run_delay_ns += delay_ns;
        ++use.threads;
    }
}

// "200000 100000": microseconds of processor time in so many; "max 100000": no limit.
uint32_t quota_cent_of(const char* mount, const char* path, size_t path_bytes) {
    char name[kGroupPathBytes + 64];
    char text[64];
    TextWriter writer(name, sizeof(name));
    writer.text(mount);
    writer.text(path, path_bytes);
    writer.text("/cpu.max");
    read_small_file(AT_FDCWD, name, text, sizeof(text));
    const char* at = text;
    uint64_t quota_us = 0;
    uint64_t period_us = 0;
    const bool limited = take_number(at, quota_us) && *at++ == ' ' && take_number(at, period_us) && period_us != 0;
    return limited ? narrow(std::max<uint64_t>(std::min(quota_us, UINT64_MAX / 100) * 100 / period_us, 1)) : 0;
}

uint32_t read_quota_cent(pid_t pid) {
    char group[kGroupPathBytes];
    return control_group(pid, group) ? least_quota_cent("/sys/fs/cgroup", group) : 0;
}

}  // namespace

uint32_t least_quota_cent(const char* mount, const char* path) {
    uint32_t least = 0;
    size_t bytes = strlen(path);
    for (size_t i = 0; i < kMostGroups && bytes <= kGroupPathBytes; ++i) {
        while (bytes != 0 && path[bytes - 1] == '/') {
            --bytes;
        }
        const uint32_t quota_cent = quota_cent_of(mount, path, bytes);
        least = least == 0 || (quota_cent != 0 && quota_cent < least) ? quota_cent : least;
        if (bytes == 0) {
            break;
        }
        while (bytes != 0 && path[bytes - 1] != '/') {
            --bytes;
        }
    }
    return least;
}

ProcessorUse read_processors(pid_t pid, std::span<const format::ThreadRecord> threads) {
    ProcessorUse use{};
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    use.online = online > 0 ? narrow(static_cast<uint64_t>(online)) : 0;
    use.allowed = allowed_processors(pid);
    use.quota_cent = read_quota_cent(pid);
    read_load(use);
    const auto main_thread = static_cast<uint32_t>(pid == 0 ? getpid() : pid);
    add_times(pid, main_thread, use);
    size_t read = 1;
    for (const format::ThreadRecord& thread : threads) {
        if (thread.thread != 0 && thread.thread != main_thread && read < kMostReadThreads) {
            add_times(pid, thread.thread, use);
            ++read;
        }
    }
    return use;
}

void write_processors(TextWriter& json, const ProcessorUse& use) {
    if (use.online == 0) {
        return;
    }
    json.format(",\"processors\":{\"online\":%u,\"allowed\":%u", use.online, use.allowed);
    const auto cent = [&](const char* key, uint32_t value) {
        json.format(",\"%s\":%u.%02u", key, value / 100, value % 100);
    };
    if (use.quota_cent != 0) {
        cent("quota", use.quota_cent);
    }
    if (use.has_load) {
        cent("load_1min", use.load_cent[0]);
        cent("load_5min", use.load_cent[1]);
        cent("load_15min", use.load_cent[2]);
    }
    if (use.threads != 0) {
        json.format(",\"threads\":%u,\"run_ns\":%lu,\"run_delay_ns\":%lu", use.threads, use.run_ns, use.run_delay_ns);
    }
    json.put('}');
}

}  // namespace titan::tracer
