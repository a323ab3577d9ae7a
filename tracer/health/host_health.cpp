#include "host_health.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "base/fd.h"
#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"
#include "control_group.h"
#include "rooted_path.h"

namespace titan::tracer {
namespace {

// Files below /sys/class/infiniband/DEVICE/ports/PORT (Linux, ABI/stable/sysfs-class-infiniband): the first number of
// each. Counters of errors and of the link; those of traffic tell nothing of its health.
constexpr const char* kPortFiles[] = {
    "state",  // 4: active
    "rate",   // Gb/s
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_xmit_discards",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_sequence",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/roce_adp_retrans",
};
constexpr uint32_t kMostPorts = 16;

Fd open_dir_at(int dir_fd, const char* path) { return Fd(openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

bool read_number(int dir_fd, const char* path, double& value) {
    char text[64];
    if (read_small_file(dir_fd, path, text, sizeof(text)) == 0) {
        return false;
    }
    char* end = nullptr;
    value = static_cast<double>(strtoull(text, &end, 10));
    return end != text;
}

void read_port(int port_dir, const char* device, const char* port, HealthLog& log) {
    for (const char* file : kPortFiles) {
        const char* const slash = strchr(file, '/');
        double value = 0;
        if (read_number(port_dir, file, value)) {
            char name[128];
            format_text(name, sizeof(name), "port.%s/%s.%s", device, port, slash == nullptr ? file : slash + 1);
            log.note(name, value, 0);
        }
    }
}

// "some avg10=1.50 avg60=...": percent of the last ten seconds in which some task waited (Linux, accounting/psi).
void read_pressure(const char* root, const char* what, HealthLog& log) {
    char path[64];
    char text[256];
    char name[64];
    format_text(path, sizeof(path), "/proc/pressure/%s", what);
    read_small_file(AT_FDCWD, RootedPath(root, path).text, text, sizeof(text));
    if (const char* const average = strstr(text, "some avg10="); average != nullptr) {
        format_text(name, sizeof(name), "host.%s_pressure_percent", what);
        log.note(name, static_cast<double>(strtoull(average + strlen("some avg10="), nullptr, 10)), 5);
    }
}

}  // namespace

void read_ports(const char* root, HealthLog& log) {
    const Fd all = open_dir_at(AT_FDCWD, RootedPath(root, "/sys/class/infiniband").text);
    if (!all.valid()) {
        return;
    }
    uint32_t ports_read = 0;
    each_entry(all.get(), [&](const char* device) {
        char path[96];
        format_text(path, sizeof(path), "%s/ports", device);
        const Fd ports = open_dir_at(all.get(), path);
        if (ports.valid()) {
            each_entry(ports.get(), [&](const char* port) {
                const Fd port_dir = open_dir_at(ports.get(), port);
                if (port_dir.valid()) {
                    read_port(port_dir.get(), device, port, log);
                }
                return ++ports_read < kMostPorts;
            });
        }
        return ports_read < kMostPorts;
    });
}

void read_host(const char* root, HealthLog& log) {
    char memory[2048];
    read_small_file(AT_FDCWD, RootedPath(root, "/proc/meminfo").text, memory, sizeof(memory));
    if (const char* const available = proc_field(memory, "\nMemAvailable:"); available != nullptr) {
        const double mib = static_cast<double>(strtoull(available, nullptr, 10) >> 10);
        log.note("host.memory_available_mib", mib, 1024);
    }
    for (const char* what : {"cpu", "memory", "io"}) {
        read_pressure(root, what, log);
    }
}

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
