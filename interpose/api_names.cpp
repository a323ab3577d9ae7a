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
#define TITAN_ROW(name, ...) names.by_id[number_of(Api::name)] = #name;
#define TITAN_TABLE "cuda_runtime.def"
#include "every_cuda_row.h"
#define TITAN_ROW(name, ...) names.by_id[number_of(Api::name)] = #name;
#define TITAN_TABLE "cuda_driver.def"
#include "every_cuda_row.h"
    return names;
}

constexpr Names names = collect();

}  // namespace

const char* const* const api_names = names.by_id;

}  // namespace titan::interpose
