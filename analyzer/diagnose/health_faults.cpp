#include "health_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "formats/layout/clock_limits.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

using format::XidSource;

constexpr double kActivePort = 4;  // sysfs: "4: ACTIVE"

// Counters that do not grow on a healthy device, and how far they may grow all the same while a process runs.
struct ErrorCounter {
    std::string_view name;
    double allowed;
};
constexpr auto kPortErrors = std::to_array<ErrorCounter>({{"symbol_error", 100},
                                                          {"link_error_recovery", 0},
                                                          {"link_downed", 0},
                                                          {"port_rcv_errors", 10},
                                                          {"local_link_integrity_errors", 0},
                                                          {"excessive_buffer_overrun_errors", 0},
                                                          {"local_ack_timeout_err", 10}});
constexpr auto kLinkErrors =
    std::to_array<ErrorCounter>({{"nvlink_crc_errors", 1000}, {"nvlink_replays", 100}, {"nvlink_recoveries", 0}});

std::string count_text(double value) { return grouped_digits(static_cast<uint64_t>(std::max(value, 0.0))); }

template <typename Counters>
void add_counter_faults(const DeviceHealth& device, const Counters& counters, std::vector<Fault>& faults) {
    for (const ErrorCounter& counter : counters) {
        const HealthReading* const reading = device.find(counter.name);
        if (reading != nullptr && reading->value - reading->first_value > counter.allowed) {
            faults.push_back({device, std::string(counter.name),
                              fmt::format("has counted {} {} since the process began",
                                          count_text(reading->value - reading->first_value), counter.name),
                              reading, XidSource::kHardware, When::kLast});
        }
    }
}

bool has_xid_of_hardware(const std::vector<Fault>& xids) {
    return std::ranges::any_of(xids, [](const Fault& xid) { return xid.source == XidSource::kHardware; });
}

// Of "xid_79"; nothing where it is no such name.
std::optional<uint32_t> xid_number(std::string_view name) {
    constexpr std::string_view kPrefix = format::kXidReading;
    if (!name.starts_with(kPrefix)) {
        return std::nullopt;
    }
    uint32_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
    return rest == end && error == std::errc() ? std::optional(number) : std::nullopt;
}

void add_xids(const DeviceHealth& gpu, std::vector<Fault>& faults) {
    std::vector<Fault> xids;
    for (const auto& [name, reading] : gpu.readings) {
        const std::optional<uint32_t> number = xid_number(name);
        if (!number || reading->value < 1) {
            continue;
        }
        const format::Xid xid = format::find_xid(*number);
        const std::string words = xid.words.empty() ? "" : fmt::format(" ({})", xid.words);
        const std::string times = reading->value < 2 ? "" : fmt::format(" {} times", count_text(reading->value));
        xids.push_back({gpu, name, fmt::format("reported Xid {}{}{}", *number, words, times), reading, xid.source,
                        reading->value < 2 ? When::kOnce : When::kSince});
    }
    // What a broken GPU brings upon the program is not the program's fault.
    if (has_xid_of_hardware(xids)) {
        for (Fault& xid : xids) {
            const bool may_be_programs = xid.source == XidSource::kProgram || xid.source == XidSource::kUnclear;
            xid.source = may_be_programs ? XidSource::kAftermath : xid.source;
        }
    }
    faults.insert(faults.end(), xids.begin(), xids.end());
}

void add_gpu_faults(const DeviceHealth& gpu, std::vector<Fault>& faults) {
    const auto add = [&](const char* reading, auto&& is_fault, auto&& words) {
        const HealthReading* const found = gpu.find(reading);
        if (found != nullptr && is_fault(*found)) {
            faults.push_back({gpu, reading, words(*found), found});
        }
    };
    add_xids(gpu, faults);
    const HealthReading* const errors = gpu.find("ecc_uncorrected");
    if (errors != nullptr && errors->value > errors->first_value) {
        const auto count = static_cast<uint64_t>(errors->value - errors->first_value);
        faults.push_back({gpu, "ecc_uncorrected",
                          fmt::format("has had {} since the process began", counted(count, "uncorrected memory error")),
                          errors, XidSource::kHardware, When::kLast});
    }
    if (const HealthReading* const limits = gpu.find("clock_limits"); limits != nullptr) {
        const uint64_t bits = static_cast<uint64_t>(limits->value) & format::fault_limits();
        if (bits != 0) {
            const std::string why = format::clock_limit_words(bits);
            faults.push_back({gpu, "clock_limits " + why, fmt::format("is throttled ({})", why), limits});
        }
    }
    const HealthReading* const widest = gpu.find("max_pcie_width");
    add(
        "pcie_width", [&](const HealthReading& r) { return widest != nullptr && r.value < widest->value; },
        [&](const HealthReading& r) { return fmt::format("has {:.0f} of {:.0f} PCIe lanes", r.value, widest->value); });
    add(
        "nvlinks_up", [](const HealthReading& r) { return r.value < r.first_value; },
        [](const HealthReading& r) {
            return fmt::format("has {:.0f} of {:.0f} NVLinks left", r.value, r.first_value);
        });
    add_counter_faults(gpu, kLinkErrors, faults);
}

void add_port_faults(const DeviceHealth& port, std::vector<Fault>& faults) {
    const HealthReading* const state = port.find("state");
    if (state != nullptr && state->first_value == kActivePort && state->value != kActivePort) {
        faults.push_back({port, "state", "is not active any more", state});
    }
    add_counter_faults(port, kPortErrors, faults);
}

}  // namespace

std::vector<Fault> faults_of(const Process& process) {
    std::vector<Fault> faults;
    for (const DeviceHealth& device : health_of(process)) {
        if (device.kind == "gpu") {
            add_gpu_faults(device, faults);
        } else if (device.kind == "port") {
            add_port_faults(device, faults);
        }
    }
    return faults;
}

}  // namespace titan::analyzer
