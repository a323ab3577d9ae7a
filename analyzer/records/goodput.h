// Where the time of the attempts of a run went, and how much training of it is kept: start, compilation, checkpoints,
// data, validation, training, the end (hang or shutdown), the pause before the next attempt, and the training that the
// next attempt did again. From markers: steps, and spans by their phase (phases.def).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "load_options.h"
#include "records.h"

namespace titan::analyzer {

// kInitialization: until the first step, but for the others. kTraining: steps, without the others in them. kEnd: after
// the newest step has taken as long as steps do. kNotOnRecord: before the first step that is not overwritten.
enum class TimePart : uint8_t {
    kInitialization,
    kCompile,
    kCheckpoint,
    kData,
    kValidation,
    kTraining,
    kEnd,
    kNotOnRecord
};
inline constexpr size_t kTimeParts = 8;

inline constexpr int64_t kNoStep = std::numeric_limits<int64_t>::min();

// Means over its ranks; steps and moments over all of them.
struct AttemptTimes {
    std::string run;
    int32_t attempt = 0;
    int32_t start = 0;     // of several in its directory, from 1 on; 0: of one
    uint64_t ranks = 0;    // with markers or another record; the rest of the numbers rests on these
    int64_t began_ns = 0;  // CLOCK_REALTIME: the first call or marker of the first rank
    int64_t ended_ns = 0;  // the newest record
    int64_t first_step = kNoStep;
    int64_t newest_step = kNoStep;
    std::array<double, kTimeParts> parts_ns{};
    double lost_ns = 0;  // of the training: steps that the next attempt does again
    int64_t lost_steps = 0;
    double pause_ns = 0;  // from the end to the begin of the next attempt

    double part_ns(TimePart part) const { return parts_ns[static_cast<size_t>(part)]; }
    double took_ns() const;  // of all parts
};

// Reads one attempt, rank after rank. Not thread-safe.
class AttemptReader {
  public:
    // `next`: null of the newest attempt.
    AttemptReader(const Run& run, const AttemptTimes* next);
    void add(const ProcessRecords& records);
    AttemptTimes times() const;  // ranks 0: nothing is on record

  private:
    AttemptTimes sums_;
    int64_t done_again_from_ = kNoStep;  // the step
    int64_t next_began_ns_ = 0;
};

struct Goodput {
    double all_ns = 0;        // of all attempts and the pauses between them
    double kept_ns = 0;       // training that is not lost
    bool marks_steps = true;  // false: what of it was training is not known

    double share() const { return all_ns > 0 ? kept_ns / all_ns : 0; }
};
Goodput goodput_of(const std::vector<AttemptTimes>& attempts);

// --- The attempts of a run that left records, and where their time went.

struct WantedAttempts {
    std::set<int> ranks{};                 // only these, all where it is empty
    std::optional<AttemptTimes> newest{};  // where it is read already
    // All runs with this label session_tag (titantrace.label); empty: the wanted run, or only the wanted attempt.
    std::string session{};
    ReadProgress progress{};
};

// Oldest first. Calls note(problem) for an attempt, or a part of one, that cannot be read. Error: nothing can.
Result<std::vector<AttemptTimes>> read_attempts(LoadOptions load, const WantedAttempts& wanted, const Write& note);

}  // namespace titan::analyzer
