// Readings of a node's ports and memory: an invented /sys and /proc, and what the ring then holds.
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
