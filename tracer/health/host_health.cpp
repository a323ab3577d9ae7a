#include "host_health.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"
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

}  // namespace titan::tracer
