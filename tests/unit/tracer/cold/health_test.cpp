// Readings of a node's ports, memory, CPU and control group: an invented /sys and /proc, and what the ring then holds.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "formats/layout/ring_layout.h"
#include "health_log.h"
#include "host_health.h"
#include "scratch.h"

using namespace titan;
using namespace titan::tracer;
using titan::test::Scratch;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kSlots = 64;

// A recording with nothing but texts and readings.
struct Node {
    Scratch scratch;
    std::string root = scratch.path("root");
    format::RingHeader header{};
    std::vector<format::HealthEntry> slots = std::vector<format::HealthEntry>(kSlots);
    std::vector<format::StringRecord> texts = std::vector<format::StringRecord>(1024);
    std::vector<char> heap = std::vector<char>(64 << 10);
    format::RegionCursor heap_cursor{};
    uint64_t dropped = 0;
    Recording* recording = static_cast<Recording*>(calloc(1, sizeof(Recording)));
    HealthLog* log = static_cast<HealthLog*>(calloc(1, sizeof(HealthLog)));

    Node() {
        header.step = 7;
        recording->header = &header;
        recording->strings = StringTable(texts.data(), texts.size(), heap.data(), heap.size(), heap_cursor, dropped);
        recording->readings = Ring<format::HealthEntry>(slots.data(), kSlots, header.health_cursor);
        log->start(*recording);
    }
    ~Node() {
        free(log);
        free(recording);
    }

    void write(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }
    void port(const std::string& file, const std::string& text) const {
        write("/sys/class/infiniband/mlx5_3/ports/1/" + file, text);
    }

    // The newest entry of each name.
    std::map<std::string, format::HealthEntry> newest() const {
        std::map<std::string, format::HealthEntry> found;
        const uint64_t head = header.health_cursor.head;
        for (uint64_t ticket = head > kSlots ? head - kSlots : 0; ticket < head; ++ticket) {
            const format::HealthEntry& entry = slots[ticket % kSlots];
            size_t length = 0;
            const char* const text = recording->strings.text_of(entry.name, length);
            found[std::string(text, length)] = entry;
        }
        return found;
    }
};

}  // namespace

TEST_CASE("a port's link and its counters of errors are read, and what changes is written once") {
    Node node;
    node.port("state", "4: ACTIVE\n");
    node.port("rate", "400 Gb/sec (4X NDR)\n");
    node.port("counters/symbol_error", "5\n");
    node.port("counters/port_xmit_data", "123456\n");
    node.port("hw_counters/local_ack_timeout_err", "0\n");
    read_ports(node.root.c_str(), *node.log);
    auto readings = node.newest();
    CHECK(readings.size() == 4);
    CHECK(readings["port.mlx5_3/1.state"].value == 4);
    CHECK(readings["port.mlx5_3/1.rate"].value == 400);
    CHECK(readings["port.mlx5_3/1.symbol_error"].value == 5);
    read_ports(node.root.c_str(), *node.log);
    CHECK(node.header.health_cursor.head == 4);
    node.header.step = 8120;
    node.port("counters/symbol_error", "4005\n");
    read_ports(node.root.c_str(), *node.log);
    CHECK(node.header.health_cursor.head == 5);
    const format::HealthEntry errors = node.newest()["port.mlx5_3/1.symbol_error"];
    CHECK(errors.value == 4005);
    CHECK(errors.first_value == 5);
    CHECK(errors.since_step == 8120);
    CHECK(errors.since_ticks == errors.ticks);
}

TEST_CASE("a reading that stays is written again before its entry is overwritten, and keeps its beginning") {
    Node node;
    node.log->note("gpu.0.clock_limits", 64, 0);
    const uint64_t since = node.newest()["gpu.0.clock_limits"].since_ticks;
    for (int i = 0; i < 200; ++i) {
        node.header.step = i;
        node.log->note("gpu.0.power_w", 100 + 20 * (i % 2), 10);
        node.log->note("gpu.0.clock_limits", 64, 0);
    }
    const format::HealthEntry limits = node.newest()["gpu.0.clock_limits"];
    CHECK(limits.value == 64);
    CHECK(limits.since_ticks == since);
    CHECK(limits.since_step == 7);
    CHECK(limits.ticks > since);
}

TEST_CASE("noise is no change") {
    Node node;
    for (const double watts : {100.0, 104.0, 97.0, 109.0}) {
        node.log->note("gpu.0.power_w", watts, 10);
    }
    CHECK(node.header.health_cursor.head == 1);
    node.log->note("gpu.0.power_w", 111, 10);
    CHECK(node.header.health_cursor.head == 2);
}

TEST_CASE("memory and pressure of the host") {
    Node node;
    node.write("/proc/meminfo", "MemTotal:     1056000 kB\nMemFree:            1 kB\nMemAvailable:  524288 kB\n");
    node.write("/proc/pressure/memory",
               "some avg10=37.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=1\n");
    read_host(node.root.c_str(), *node.log);
    auto readings = node.newest();
    CHECK(readings.size() == 2);
    CHECK(readings["host.memory_available_mib"].value == 512);
    CHECK(readings["host.memory_pressure_percent"].value == 37);
}

TEST_CASE("more things than there is room for are left out, and nothing else happens") {
    Node node;
    for (int i = 0; i < 2000; ++i) {
        node.log->note(("gpu." + std::to_string(i) + ".power_w").c_str(), i, 0);
    }
    CHECK(node.header.health_cursor.head == 384);
    read_ports("/nowhere", *node.log);
    CHECK(node.header.health_cursor.head == 384);
}

TEST_CASE("an event counts, and keeps when it came first, also where others would overwrite it") {
    Node node;
    node.log->note_event("gpu.0.xid_31");
    const uint64_t since = node.newest()["gpu.0.xid_31"].since_ticks;
    node.header.step = 9;
    node.log->note_event("gpu.0.xid_31");
    CHECK(node.newest()["gpu.0.xid_31"].value == 2);
    for (int i = 0; i < 200; ++i) {
        node.log->note("gpu.0.power_w", 100 + 20 * (i % 2), 10);
        node.log->keep_events();
    }
    const format::HealthEntry event = node.newest()["gpu.0.xid_31"];
    CHECK(event.value == 2);
    CHECK(event.since_ticks == since);
    CHECK(event.since_step == 7);
}

TEST_CASE("what limits on memory did to the control group, of either version, also where a container hides its path") {
    struct Case {
        const char* groups;
        const char* file;
        const char* text;
        double high, max, ooms, kills;
    };
    constexpr const char* kEvents = "low 0\nhigh 4\nmax 31\noom 3\noom_kill 2\noom_group_kill 1\n";
    constexpr const char* kControl = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
    for (const Case& each : {
             Case{"0::/kubepods/pod1\n", "/sys/fs/cgroup/kubepods/pod1/memory.events", kEvents, 4, 31, 3, 2},
             Case{"0::/\n", "/sys/fs/cgroup/memory.events", kEvents, 4, 31, 3, 2},
             Case{"0::/of/the/host\n", "/sys/fs/cgroup/memory.events", kEvents, 4, 31, 3, 2},
             Case{"8:pids:/\n4:hugetlb,memory:/job\n0::/\n", "/sys/fs/cgroup/memory/job/memory.oom_control", kControl,
                  0, 0, 0, 2},
             Case{"4:memory:/of/the/host\n", "/sys/fs/cgroup/memory/memory.oom_control", kControl, 0, 0, 0, 2},
         }) {
        Node node;
        node.write("/proc/self/cgroup", each.groups);
        node.write(each.file, each.text);
        read_control_group(node.root.c_str(), *node.log);
        auto readings = node.newest();
        CHECK_MESSAGE(readings.size() == 4, each.groups);
        CHECK(readings["cgroup.memory_high"].value == each.high);
        CHECK(readings["cgroup.memory_max"].value == each.max);
        CHECK(readings["cgroup.ooms"].value == each.ooms);
        CHECK(readings["cgroup.oom_kills"].value == each.kills);
    }
}

TEST_CASE("a control group that cannot be read has a row that says so") {
    for (const char* groups : {"", "0::/../other\n", "nonsense", ":::\n", "4:memory:\n", "1:cpu,memor:/a\n"}) {
        Node node;
        node.write("/proc/self/cgroup", groups);
        read_control_group(node.root.c_str(), *node.log);
        auto readings = node.newest();
        CHECK_MESSAGE(readings.size() == 1, groups);
        CHECK(readings.contains("cgroup.memory_events_readable"));
    }
}

namespace {

// Field 39: the CPU.
std::string stat_of(char state, int cpu) {
    std::string text = std::string("4711 (python) R (3) ") + state;
    for (int field = 4; field < 39; ++field) {
        text += " 0";
    }
    return text + " " + std::to_string(cpu) + " 0 0 0\n";
}

}  // namespace

TEST_CASE("the clock of the CPU that the main thread runs on: the median of the newest readings") {
    Node node;
    auto* const clock = static_cast<CpuClock*>(calloc(1, sizeof(CpuClock)));
    node.write("/proc/self/stat", stat_of('R', 12));
    node.write("/sys/devices/system/cpu/cpu12/cpufreq/cpuinfo_max_freq", "3800000\n");
    for (const char* khz : {"3500000", "800000", "3600000"}) {
        node.write("/sys/devices/system/cpu/cpu12/cpufreq/scaling_cur_freq", khz);
        clock->read(node.root.c_str(), *node.log);
    }
    auto readings = node.newest();
    CHECK(readings["cpu.clock_mhz"].value == 3500);
    CHECK(readings["cpu.max_clock_mhz"].value == 3800);
    node.write("/proc/self/stat", stat_of('S', 12));
    node.write("/sys/devices/system/cpu/cpu12/cpufreq/scaling_cur_freq", "400000");
    for (int i = 0; i < 9; ++i) {
        clock->read(node.root.c_str(), *node.log);
    }
    CHECK(node.newest()["cpu.clock_mhz"].value == 3500);
    free(clock);
}

TEST_CASE("a CPU without a clock to read has a row that says so") {
    Node node;
    auto* const clock = static_cast<CpuClock*>(calloc(1, sizeof(CpuClock)));
    for (const char* stat : {"", "4711 (python", "4711 (python) R", "4711 (python) R 1 2 3"}) {
        node.write("/proc/self/stat", stat);
        clock->read(node.root.c_str(), *node.log);
    }
    CHECK(node.header.health_cursor.head == 0);
    node.write("/proc/self/stat", stat_of('R', 3));
    clock->read(node.root.c_str(), *node.log);
    CHECK(node.newest().size() == 1);
    CHECK(node.newest().contains("cpu.clock_readable"));
    free(clock);
}
