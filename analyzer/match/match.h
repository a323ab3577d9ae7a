// Lays the members of each communicator side by side, sequence number by sequence number, and says who differs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "expected.h"
#include "finding.h"
#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

struct Mismatch {
    uint32_t communicator = kNoIndex;
    uint64_t sequence = 0;
    FindingKind kind{};
    Edit edit;  // of the culprits
    bool undecidable = false;
    bool most_deviate = false;  // the culprits did there what they always did before, and the others did not
    // The main thread made the call on some ranks, another on others; or two of a rank race.
    bool several_threads = false;
    Confidence confidence = Confidence::kCertain;
    std::vector<MemberRef> culprits;
    std::vector<MemberRef> others;  // members that agree with each other
    Sentence summary;
    std::vector<Sentence> evidence;
    uint64_t repeats = 0;  // later sequence numbers with the same difference

    // A call whose sides differ so does not end: reduction ops may differ, and what is only possible may be no
    // mismatch.
    bool never_ends() const { return confidence != Confidence::kPossible && kind != FindingKind::kRedopMismatch; }
    // Is the process one of the culprits?
    bool names(uint32_t process) const {
        return std::ranges::any_of(culprits, [process](MemberRef culprit) { return culprit.process == process; });
    }
};

std::vector<Mismatch> find_mismatches(const Run& run);

}  // namespace titan::analyzer
