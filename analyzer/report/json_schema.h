// The version of titan-analyze's JSON.
#pragma once

namespace titan::analyzer {

// Version of every JSON answer. Raised when a key changes its name or meaning; CHANGELOG.md lists them.
inline constexpr int kJsonSchema = 4;

}  // namespace titan::analyzer
