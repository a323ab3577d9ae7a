#include "alignment.h"

#include <algorithm>
#include <utility>

namespace titan::analyzer {

Agreement agreement(const Same& same, size_t i, size_t j) {
    constexpr size_t kLookahead = 32;
    Agreement agreement;
    for (size_t k = 0; k < kLookahead; ++k) {
        const auto equal = same(i + k, j + k);
        if (!equal) {
            break;
        }
        ++agreement.compared;
        agreement.equal += *equal ? 1 : 0;
    }
    return agreement;
}

size_t agreed_after(const Same& same) {
    size_t most = 0;
    for (const auto& [i, j] : {std::pair(1, 1), std::pair(0, 1), std::pair(1, 0)}) {
        const Agreement after = agreement(same, i, j);
        most = after.all() ? std::max(most, after.compared) : most;
    }
    return most;
}

bool are_swapped(const Same& same) {
    const Agreement after = agreement(same, 2, 2);
    return same(0, 1) == true && same(1, 0) == true && after.equal == after.compared;
}

void tell_kind(const Same& same, size_t left_out, Edit& edit) {
    const bool changed = agreement(same, 1, 1).all();
    const bool swapped = are_swapped(same);
    const bool missing = agreement(same, 0, left_out).all();
    const bool extra = agreement(same, 1, 0).all();
    edit.kind = changed || !(swapped || missing || extra) ? EditKind::kChanged
                : swapped                                 ? EditKind::kSwapped
                : missing                                 ? EditKind::kMissing
                                                          : EditKind::kExtra;
    // Several may be too many, such as the sends and receives of a group.
    for (size_t calls = 1; edit.kind == EditKind::kMissing && calls <= kLeftOut; ++calls) {
        edit.or_extra |= agreement(same, calls, 0).all();
    }
    edit.is_told = changed || swapped || missing || extra;
}

}  // namespace titan::analyzer
