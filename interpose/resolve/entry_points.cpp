#include "entry_points.h"

#include <string.h>

#include <atomic>
#include <string_view>

#include "base/hash.h"
#include "base/loaded_objects.h"
#include "nccl_copies.h"
#include "thunks.h"

namespace titan::interpose {

namespace {

constexpr int kNewestKnownCuda = 13000;  // the table was written from this version's cudaTypedefs.h

struct Form {
    const char* base;
    const char* name;
    int since;
    Api api;
    uint32_t base_hash;
    bool per_thread;
};

// "7000_ptsz" is CUDA 7.0, per thread.
constexpr int number_in(std::string_view since) {
    int number = 0;
    for (size_t i = 0; i < since.size() && since[i] >= '0' && since[i] <= '9'; ++i) {
        number = number * 10 + (since[i] - '0');
    }
    return number;
}

constexpr Form forms[] = {
#define TITAN_ROW(name, base, since, ...)          \
    {#base,     #name,          number_in(#since), \
     Api::name, fnv1a32(#base), std::string_view(#since).find('_') != std::string_view::npos},
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
};

bool is_exported_as(const Form& form, const void* real) { return function_in(object_of(real), form.name) == real; }

// The newest form not above the version, as cuGetProcAddress chooses; the twin for per-thread streams where there is
// one.
const Form* form_of_version(const char* symbol, int version, bool per_thread) {
    const uint32_t hash = fnv1a32(symbol);
    const Form* best = nullptr;
    for (const Form& form : forms) {
        if (form.base_hash != hash || form.since > version || (form.per_thread && !per_thread) ||
            strcmp(form.base, symbol) != 0) {
            continue;
        }
        const bool better = best == nullptr || (form.per_thread && !best->per_thread) ||
                            (form.per_thread == best->per_thread && form.since > best->since);
        best = better ? &form : best;
    }
    return best;
}

const Form* form_exported_by(const char* symbol, const void* real) {
    const uint32_t hash = fnv1a32(symbol);
    for (const Form& form : forms) {
        if (form.base_hash == hash && strcmp(form.base, symbol) == 0 && is_exported_as(form, real)) {
            return &form;
        }
    }
    return nullptr;
}

// Libcuda's own name of the function is proof: bindings ask for versions older than the twin that they get, and
// versions that we do not know may mean a form that we do not know, either. What it does not export goes by the
// version.
//
// cuGraphInstantiate is cuGraphInstantiateWithFlags from some version on. Its forms here have more parameters: they
// hand on those of either.
const Form* form_of(const char* symbol, const void* real, int version, bool per_thread) {
    const bool is_known = version > 0 && version <= kNewestKnownCuda;
    const Form* const meant = is_known ? form_of_version(symbol, version, per_thread) : nullptr;
    if (meant != nullptr && is_exported_as(*meant, real)) {
        return meant;
    }
    const Form* const proven = form_exported_by(symbol, real);
    return proven != nullptr ? proven : meant;
}

}  // namespace

void* hand_out_driver(const char* symbol, void* real, int version, bool per_thread, const void* caller) {
    if (symbol == nullptr || real == nullptr || is_ours(real)) {
        return real;
    }
    const Form* const form = form_of(symbol, real, version, per_thread);
    return form != nullptr && !is_nccl(caller) ? bind_thunk(form->api, real) : real;
}

}  // namespace titan::interpose
