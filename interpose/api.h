// The ids of all intercepted functions, from the rows of the .def files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::interpose {

enum class Api : uint16_t {
#define TITAN_API_ID(id, since, name, ...) name = id,
#define CALL TITAN_API_ID
#define CREATE TITAN_API_ID
#define CREATE_ALL TITAN_API_ID
#define MARK TITAN_API_ID
#define GROUP_START TITAN_API_ID
#define GROUP_END TITAN_API_ID
#define ASYNC_ERROR TITAN_API_ID
#define GROW_ID TITAN_API_ID
#define SYNC(id, name, ...) name = id,
#include "cuda_driver.def"
#include "cuda_runtime.def"
#include "nccl.def"
#include "undef_rows.h"
};

inline constexpr size_t kApiIds = 160;  // above every id

// kApiIds names by id, null in the gaps between the tables.
extern const char* const* const api_names;

}  // namespace titan::interpose
