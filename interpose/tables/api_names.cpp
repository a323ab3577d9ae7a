#include "api.h"

namespace titan::interpose {

namespace {

struct Names {
    const char* by_id[kApiIds]{};
};

constexpr Names collect() {
    Names names;
#define TITAN_ROW(id, since, name, ...) names.by_id[id] = #name;
#define TITAN_TABLE "nccl.def"
#include "every_row.h"
#define TITAN_ROW(name, ...) names.by_id[number_of(Api::name)] = #name;
#define TITAN_TABLE "cuda_runtime.def"
#include "every_row.h"
#define TITAN_ROW(name, ...) names.by_id[number_of(Api::name)] = #name;
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
    return names;
}

constexpr Names names = collect();

// Rows of nccl.def carry their numbers.
constexpr size_t nccl_rows() {
    size_t rows = 0;
#define TITAN_ROW(id, since, name, ...) ++rows;
#define TITAN_TABLE "nccl.def"
#include "every_row.h"
    return rows;
}

constexpr bool every_nccl_id_has_a_name() {
    const size_t first = number_of(Api::kNcclEnd) - nccl_rows();
    for (size_t id = first; id < number_of(Api::kNcclEnd); ++id) {
        if (names.by_id[id] == nullptr) {
            return false;
        }
    }
    return true;
}
static_assert(every_nccl_id_has_a_name(), "an id of nccl.def is missing or there twice");

}  // namespace

const char* const* const api_names = names.by_id;

}  // namespace titan::interpose
