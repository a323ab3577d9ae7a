#include "entry_points.h"

#include <string.h>

#include <atomic>
#include <string_view>

#include "doors.h"
#include "elf_symbols.h"
#include "nccl_callers.h"

namespace titan::interpose {

namespace {

constexpr int kNewestKnownCuda = 13000;  // whose cudaTypedefs.h the table was written from

struct Form {
    const char* base;
    const char* name;
    int since;
    Api api;
    uint32_t base_hash;
    bool per_thread;
};

constexpr uint32_t hash_of(const char* text) {
    uint32_t hash = 2166136261;
    for (; *text != '\0'; ++text) {
        hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619;
    }
    return hash;
}

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
     Api::name, hash_of(#base), std::string_view(#since).find('_') != std::string_view::npos},
#define TITAN_TABLE "cuda_driver.def"
#include "every_cuda_row.h"
};

bool is_exported_as(const Form& form, const void* real) {
    const link_map* const driver = object_of(real);
    return driver != nullptr && function_in(*driver, form.name) == real;
}

// The newest form not above the version, as cuGetProcAddress chooses; the twin for per-thread streams where there is one.
const Form* form_of_version(const char* symbol, int version, bool per_thread) {
    const uint32_t hash = hash_of(symbol);
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

// Whatever was asked for, libcuda's own name of the function is proof.
const Form* form_exported_by(const char* symbol, const void* real) {
    const uint32_t hash = hash_of(symbol);
    for (const Form& form : forms) {
        if (form.base_hash == hash && strcmp(form.base, symbol) == 0 && is_exported_as(form, real)) {
            return &form;
        }
    }
    return nullptr;
}

}  // namespace

void* hand_out_driver(const char* symbol, void* real, int version, bool per_thread, const void* caller) {
    if (symbol == nullptr || real == nullptr || is_ours(real)) {
        return real;
    }
    // Of versions that we do not know the form may be one that we do not know, either.
    const bool is_known = version > 0 && version <= kNewestKnownCuda;
    const Form* const form = is_known ? form_of_version(symbol, version, per_thread) : form_exported_by(symbol, real);
    return form != nullptr && !is_nccl(caller) ? hand_out(form->api, real) : real;
}

}  // namespace titan::interpose
