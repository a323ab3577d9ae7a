// What a process did, part by part: its steps, the spans of its program, its calls and its metrics. For all who sum up
// or compare.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "records.h"

namespace titan::analyzer {

// In the order in which they are listed. kGpuCall: as long as they were seen to run; kHostCall: what no GPU was seen to
// run, as long as the host was inside.
enum class PartKind : uint8_t { kStep, kSpan, kGpuCall, kHostCall, kMetric };

constexpr const char* name_of(PartKind kind) {
    constexpr const char* kNames[] = {"step", "span", "GPU", "host", "metric"};
    return kNames[static_cast<size_t>(kind)];
}

inline std::string in_role(const std::string& role, const std::string& name) {
    return role.empty() ? name : role + ": " + name;
}

struct Part {
    PartKind kind{};
    // "step", or "period of 12 calls" where steps are not marked; the span's; "all_reduce on dp", of all communicators
    // of that role; the metric's.
    std::string name{};
    int64_t begin_ns = 0;  // CLOCK_REALTIME of its host
    // Nanoseconds; of metrics as the program gave it. Nothing of a call whose time is unknown.
    std::optional<double> value{};
    uint64_t bytes = 0;                          // of calls, as passed
    double bus_bytes = 0;                        // by nccl-tests' factor
    int64_t step = -1;                           // that it lies in; -1: before the first, or not known
    bool in_steps = false;                       // it began in one; not what steps lie in, as an epoch
    std::string role{};                          // where ranks count within roles (ProcessRecords::role)
    OpKind op{};                                 // of calls, as is
    const Communicator* communicator = nullptr;  // null: unknown
    // WantedSteps::with_sums: calls that this stands for, and how many of them `value` is the mean of.
    uint64_t calls = 1;
    uint64_t timed_calls = 1;
    double longest = 0;

    // "trainer: step" where there are roles.
    std::string full_name() const { return in_role(role, name); }
    bool is_call() const { return kind == PartKind::kGpuCall || kind == PartKind::kHostCall; }
};

inline constexpr const char* kMarkedStep = "step";

struct WantedSteps {
    std::optional<std::pair<int64_t, int64_t>> range;
    uint64_t skip = 0;       // the first ones on record
    bool with_sums = false;  // also calls that the journal has as sums alone: a part for those of a kind in a step

    bool in_range(int64_t step) const { return !range || (step >= range->first && step <= range->second); }
};

// Calls visit(part) for each of them that is over: spans and metrics in the order in which they ended, then calls, then
// steps, or the periods that stand in for them. A step lasts from the end of its calls on the GPU to that of the next
// one's, where the host is a step ahead of its GPU, or marks nothing. Answers how many markers are overwritten.
uint64_t visit_parts(const Run& run, const ProcessRecords& records, const WantedSteps& wanted,
                     const std::function<void(const Part&)>& visit);

}  // namespace titan::analyzer
