// Reads times from a ring: when the process came to its collectives, and how its host spent each step. Pure functions
// over a ring image; hostile values are clamped or left out. Bounded by the constants below whatever the ring holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/ring/ring_image.h"
#include "run.h"
#include "text_table.h"

namespace titan::analyzer {

// Limits for each process; the newest are kept.
inline constexpr size_t kMaxArrivals = 1024;
inline constexpr size_t kMaxSteps = 1024;
inline constexpr size_t kMaxCallTimes = 32768;  // more than the default ring holds
inline constexpr size_t kMaxSpansOfStep = 8;

// Runs after the entries are decoded: fills Member::arrivals, Process::steps and step_spans. All members of a
// communicator choose the same calls: of each step the first, the largest and the last; without steps every n-th, n a
// power of three.
// Steps that the program does not mark are what its calls repeat: they are cut where a
// communicator's calls begin anew, and numbered by them, so that all its members cut alike.
void decode_timing(const format::RingImage& image, TextTable& texts, Process& process);
// The first of them, from Process::entries alone: for records that have no ring.
void sample_arrivals(Process& process);

// --- Its steps, one file each.

// The running sums of the arrivals that sample_arrivals() took: the rank that arrives last waits least.
void sum_durations(Process& process);

// Steps of a program that marks none: the whole periods of the process' calls, numbered alike on all ranks.
// `launches_ns`: when the host launched something, in order; they are on record from `since_ns` on. None where the
// calls repeat in no period.
std::vector<StepProfile> steps_by_period(const Process& process, const std::vector<int64_t>& launches_ns,
                                         int64_t since_ns);

// What waits for what on the process's streams, in each of its steps: from the records and waits of events between
// streams that the ring still holds, of the newest two steps in a row that are ordered alike; empty without such. Runs
// after Process::steps are placed.
std::vector<StreamPiece> step_streams(const format::RingImage& image, const Process& process);

}  // namespace titan::analyzer
