// Reads times from a ring: when the process came to its collectives, and how its host spent each step. Pure functions
// over a ring image; hostile values are clamped or left out. Bounded by the constants below whatever the ring holds.
#pragma once

#include <cstddef>

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

}  // namespace titan::analyzer
