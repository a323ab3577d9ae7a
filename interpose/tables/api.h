// The ids of all intercepted functions, from the rows of the .def files. They are dense within each table; no file has
// them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::interpose {

enum class Api : uint16_t {
#define TITAN_ROW(id, since, name, ...) name = id,
#define TITAN_TABLE "nccl.def"
#include "every_row.h"
    kNcclEnd,
    kRuntimeBegin = 99,
#define TITAN_ROW(name, ...) name,
#define TITAN_TABLE "cuda_runtime.def"
#include "every_row.h"
    kRuntimeEnd,
    kDriverBegin = 299,
#define TITAN_ROW(name, ...) name,
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
    kDriverEnd,
};

constexpr size_t number_of(Api api) { return static_cast<size_t>(api); }

inline constexpr size_t kApiIds = number_of(Api::kDriverEnd);  // one more than the highest id

static_assert(Api::kNcclEnd < Api::kRuntimeBegin && Api::kRuntimeEnd < Api::kDriverBegin);

// kApiIds names by id, null in the gaps between the tables.
extern const char* const* const api_names;

}  // namespace titan::interpose
