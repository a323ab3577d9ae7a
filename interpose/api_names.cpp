#include "api.h"

namespace titan::interpose {

namespace {

struct Names {
    const char* by_id[kApiIds]{};
};

constexpr Names collect() {
    Names names;
#define TITAN_API_ID(id, since, name, ...) names.by_id[id] = #name;
#define CALL TITAN_API_ID
#define CREATE TITAN_API_ID
#define CREATE_ALL TITAN_API_ID
#define MARK TITAN_API_ID
#define GROUP_START TITAN_API_ID
#define GROUP_END TITAN_API_ID
#define ASYNC_ERROR TITAN_API_ID
#define GROW_ID TITAN_API_ID
#define SYNC(id, name, ...) names.by_id[id] = #name;
#include "nccl.def"
#include "cuda_runtime.def"
#include "cuda_driver.def"
#include "undef_rows.h"
    return names;
}

constexpr Names names = collect();

}  // namespace

const char* const* const api_names = names.by_id;

}  // namespace titan::interpose
