// Lays the members of each communicator side by side, sequence number by sequence number, and says who differs.
#pragma once

#include <string>
#include <vector>

#include "finding.h"
#include "run.h"
#include "sentence.h"
#include "shift.h"

namespace titan::analyzer {

struct Mismatch {
    uint32_t communicator = kNoIndex;
    uint64_t sequence = 0;
    FindingKind kind{};
    Shift shift = Shift::kNone;
    bool undecidable = false;
    bool skipped_or_extra = false;  // the culprits skipped a call or made one too many: both explain what is on record
    bool several_threads =
        false;  // the main thread made the call on some ranks, another on others; or two of a rank race
    Confidence confidence = Confidence::kCertain;
    std::vector<MemberRef> culprits;
    std::vector<MemberRef> others;  // members that agree with each other
    Sentence summary;
    std::vector<Sentence> evidence;
    uint64_t repeats = 0;  // later sequence numbers with the same difference
};

std::vector<Mismatch> find_mismatches(const Run& run);

// The step of a member's collective, -1 unknown.
int32_t step_at(const Process& process, const Member& member, uint64_t sequence);

}  // namespace titan::analyzer
