// What is a fault among the readings of GPUs and network ports.
#pragma once

#include <string>
#include <vector>

#include "formats/layout/xids.h"
#include "health_of.h"
#include "run.h"

namespace titan::analyzer {

// What the moment of its reading is.
enum class When {
    kSince,  // it has been so since then
    kOnce,   // it happened then
    kLast,   // of what it counts the last happened then
};

// One fault of one device, as a process saw it.
struct Fault {
    DeviceHealth device;
    std::string sort;  // those of one sort are alike, whatever they count: "xid_79", "symbol_error"
    std::string what;  // "is throttled (too hot (hardware))"
    const HealthReading* reading;
    format::XidSource source = format::XidSource::kHardware;
    When when = When::kSince;

    // A port belongs to the host, a GPU to the rank.
    bool is_of_host() const { return device.kind == "port"; }
};

std::vector<Fault> faults_of(const Process& process);

}  // namespace titan::analyzer
