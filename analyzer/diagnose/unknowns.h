// The facts that are not known and that findings depend on: one table, unknowns.def, says how sure a finding can be
// with each, and what would settle it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "finding.h"
#include "sentence.h"

namespace titan::analyzer {

enum class Unknown : uint8_t {
#define UNKNOWN(id, ...) id,
#include "unknowns.def"
};

struct UnknownRow {
    Confidence at_most;
    std::string_view settled_by;
};

inline constexpr auto kUnknowns = std::to_array<UnknownRow>({
#define UNKNOWN(id, at_most, settled_by) {Confidence::at_most, settled_by},
#include "unknowns.def"
});

constexpr const UnknownRow& row_of(Unknown unknown) { return kUnknowns[static_cast<size_t>(unknown)]; }

template <Unknown unknown, typename... Args>
Sentence settled_by(const Args&... args) {
    return phrase(row_of(unknown).settled_by, args...);
}

template <Unknown unknown, typename... Args>
void doubt(Finding& finding, bool doubtful, const Args&... args) {
    if (doubtful) {
        finding.depends_on(settled_by<unknown>(args...), row_of(unknown).at_most);
    }
}

template <Unknown unknown, typename... Args>
void depends_on(Finding& finding, const Args&... args) {
    doubt<unknown>(finding, true, args...);
}

// One of several that take no arguments.
inline void depends_on(Finding& finding, Unknown unknown) {
    finding.depends_on(std::string(row_of(unknown).settled_by), row_of(unknown).at_most);
}

}  // namespace titan::analyzer
