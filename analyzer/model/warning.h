// Warnings about what could not be seen, or was left out. The kinds come from one table, warnings.def.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace titan::analyzer {

enum class WarningKind : uint8_t {
#define WARNING_KIND(id, ...) id,
#include "warnings.def"
};

struct WarningKindRow {
    WarningKind kind;
    std::string_view name;
    std::string_view meaning;
};

inline constexpr auto kWarningKinds = std::to_array<WarningKindRow>({
#define WARNING_KIND(id, name, meaning) {WarningKind::id, name, meaning},
#include "warnings.def"
});

constexpr const WarningKindRow& row_of(WarningKind kind) { return kWarningKinds[static_cast<size_t>(kind)]; }
constexpr std::string_view name_of(WarningKind kind) { return row_of(kind).name; }

struct Warning {
    WarningKind kind{};
    std::vector<int> ranks;
    std::string summary;
};

}  // namespace titan::analyzer
