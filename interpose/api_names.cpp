#include "api.h"

namespace titan::interpose {

namespace {

struct Names {
    const char* by_id[kApiIds]{};
};

constexpr Names collect() {
    Names names;
#define TITAN_ROW(id, since, name, ...) names.by_id[id] = #name;
#include "every_nccl_row.h"
#define SYNC(id, name, ...) names.by_id[id] = #name;
#include "cuda_driver.def"
#include "cuda_runtime.def"
#undef SYNC
    return names;
}

constexpr Names names = collect();

}  // namespace

const char* const* const api_names = names.by_id;

}  // namespace titan::interpose
