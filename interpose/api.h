// The ids of all intercepted functions, from the rows of the .def files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::interpose {

enum class Api : uint16_t {
#define TITAN_ROW(id, since, name, ...) name = id,
#include "every_nccl_row.h"
#define SYNC(id, name, ...) name = id,
#include "cuda_driver.def"
#include "cuda_runtime.def"
#undef SYNC
};

inline constexpr size_t kApiIds = 512;  // above every id

// kApiIds names by id, null in the gaps between the tables.
extern const char* const* const api_names;

}  // namespace titan::interpose
