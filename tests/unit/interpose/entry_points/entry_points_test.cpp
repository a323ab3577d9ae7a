// Which wrapper cuGetProcAddress and its relatives hand out for the function that a driver gave. What is right is in
// cudaTypedefs.h (a form's version is part of its type's name) and in cuda.h (a program's word for its newest form).
#include "entry_points.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "api.h"
#include "thunks.h"

using namespace titan::interpose;

extern const char* const header_names[];             // cuda_as_header.cpp
extern const char* const header_names_per_thread[];  // the same, compiled for a default stream per thread
extern const int header_cuda_version;

namespace {

constexpr int kLegacy = 0, kPerThread = 1;

void* in(const char* library, const char* name) {
    void* const handle = dlopen(library, RTLD_NOW);
    REQUIRE_MESSAGE((handle != nullptr), dlerror());
    return dlsym(handle, name);
}

void* in_driver(const char* name) { return in("libtiny_driver.so", name); }

// "" for what is no wrapper; that it leads to `real` is checked.
std::string wrapped(const void* handed, const void* real) {
    for (size_t id = number_of(Api::kDriverBegin) + 1; id < number_of(Api::kDriverEnd); ++id) {
        for (unsigned thunk = 1; thunk < kThunks; ++thunk) {
            if (driver_thunks[id - number_of(Api::kDriverBegin) - 1][thunk] == handed) {
                CHECK((thunk_targets[thunk][id].load() == real));
                return api_names[id];
            }
        }
    }
    CHECK((handed == real));
    return "";
}

struct Asked {
    const char* symbol;
    int version;
    int mode;
    const char* given;   // what the driver answers with
    const char* expect;  // "": left alone
};

struct Row {
    const char* name;
    const char* base;
    const char* since;
};
const Row rows[] = {
#define TITAN_ROW(name, base, since, ...) {#name, #base, #since},
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
};

std::string ask(const char* symbol, void* real, int version, int mode) {
    return wrapped(hand_out_driver(symbol, real, version, mode == kPerThread, nullptr), real);
}

}  // namespace

TEST_CASE("the form of the CUDA version that is asked for") {
    const Asked cases[] = {
        {"cuStreamSynchronize", 11080, kLegacy, "cuStreamSynchronize", "cuStreamSynchronize"},
        {"cuStreamSynchronize", 13000, kLegacy, "cuStreamSynchronize", "cuStreamSynchronize"},
        {"cuStreamSynchronize", 11080, kPerThread, "cuStreamSynchronize_ptsz", "cuStreamSynchronize_ptsz"},
        {"cuMemcpyHtoD", 11080, kLegacy, "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2"},
        {"cuMemcpyHtoD", 11080, kPerThread, "cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2_ptds"},
        {"cuMemcpyHtoDAsync", 12000, kPerThread, "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync_v2_ptsz"},
        {"cuMemAlloc", 3020, kLegacy, "cuMemAlloc_v2", "cuMemAlloc_v2"},
        // A function that has no twin.
        {"cuMemAlloc", 12080, kPerThread, "cuMemAlloc_v2", "cuMemAlloc_v2"},
        {"cuEventSynchronize", 13000, kPerThread, "cuEventSynchronize", "cuEventSynchronize"},
        // Their parameters changed: the version before, the version of the change, one between two of CUDA.
        {"cuStreamBeginCapture", 10000, kLegacy, "cuStreamBeginCapture", "cuStreamBeginCapture"},
        {"cuStreamBeginCapture", 11080, kLegacy, "cuStreamBeginCapture_v2", "cuStreamBeginCapture_v2"},
        {"cuGraphExecUpdate", 11080, kLegacy, "cuGraphExecUpdate", "cuGraphExecUpdate"},
        {"cuGraphExecUpdate", 12000, kLegacy, "cuGraphExecUpdate_v2", "cuGraphExecUpdate_v2"},
        {"cuMemPrefetchAsync", 12010, kLegacy, "cuMemPrefetchAsync", "cuMemPrefetchAsync"},
        {"cuMemPrefetchAsync", 12020, kPerThread, "cuMemPrefetchAsync_v2_ptsz", "cuMemPrefetchAsync_v2_ptsz"},
        {"cuGraphAddNode", 12020, kLegacy, "cuGraphAddNode", "cuGraphAddNode"},
        {"cuGraphAddNode", 12040, kLegacy, "cuGraphAddNode_v2", "cuGraphAddNode_v2"},
        {"cuMemcpyBatchAsync", 12080, kLegacy, "cuMemcpyBatchAsync", "cuMemcpyBatchAsync"},
        {"cuMemcpyBatchAsync", 12090, kPerThread, "cuMemcpyBatchAsync_ptsz", "cuMemcpyBatchAsync_ptsz"},
        {"cuMemcpyBatchAsync", 13000, kLegacy, "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync_v2"},
        {"cuCtxSynchronize", 12090, kLegacy, "cuCtxSynchronize", "cuCtxSynchronize"},
        {"cuCtxSynchronize", 13000, kLegacy, "cuCtxSynchronize_v2", "cuCtxSynchronize_v2"},
        {"cuStreamWaitValue32", 11060, kLegacy, "cuStreamWaitValue32", "cuStreamWaitValue32"},
        {"cuStreamWaitValue32", 11070, kLegacy, "cuStreamWaitValue32_v2", "cuStreamWaitValue32_v2"},
        {"cuDevicePrimaryCtxRelease", 10020, kLegacy, "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease"},
        {"cuDevicePrimaryCtxRelease", 11080, kLegacy, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease_v2"},
        {"cuGetProcAddress", 11080, kLegacy, "cuGetProcAddress", "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, kLegacy, "cuGetProcAddress_v2", "cuGetProcAddress_v2"},
        // Forms that no row has: whoever asks for CUDA 2.0 gets sizes of 32 bits.
        {"cuMemAlloc", 2000, kLegacy, "cuStreamWaitValue32_v9", ""},
        {"cuMemcpyHtoD", 3000, kLegacy, "cuStreamWaitValue32_v9", ""},
        // Names of others, of nobody, and of a form instead of a function.
        {"cuInit", 12000, kLegacy, "cuMemAlloc_v2", ""},
        {"cuMemAlloc_v2", 12000, kLegacy, "cuMemAlloc_v2", ""},
        {"cuMemAllo", 12000, kLegacy, "cuMemAlloc_v2", ""},
        {"", 12000, kLegacy, "cuMemAlloc_v2", ""},
    };
    for (const Asked& asked : cases) {
        CAPTURE(asked.symbol);
        CAPTURE(asked.version);
        void* const real = in_driver(asked.given);
        REQUIRE((real != nullptr));
        CHECK(ask(asked.symbol, real, asked.version, asked.mode) == asked.expect);
    }
}

TEST_CASE("a function that the driver does not export goes by the version alone") {
    int elsewhere[4] = {};
    CHECK(ask("cuStreamDestroy", &elsewhere[0], 12000, kLegacy) == "cuStreamDestroy_v2");
    CHECK(ask("cuStreamEndCapture", &elsewhere[1], 12000, kPerThread) == "cuStreamEndCapture_ptsz");
    // Of a version that is newer than the table the form may be, too.
    CHECK(ask("cuStreamWaitEvent", &elsewhere[2], 13010, kLegacy) == "");
    CHECK(ask("cuStreamWaitEvent", &elsewhere[3], 0, kLegacy) == "");
}

TEST_CASE("the name under which the driver exports a function is proof, whatever was asked for") {
    const Asked cases[] = {
        {"cuStreamSynchronize", 0, kLegacy, "cuStreamSynchronize", "cuStreamSynchronize"},
        {"cuGraphExecUpdate", 0, kLegacy, "cuGraphExecUpdate", "cuGraphExecUpdate"},
        {"cuGraphExecUpdate", 13010, kLegacy, "cuGraphExecUpdate_v2", "cuGraphExecUpdate_v2"},
        {"cuStreamWaitValue32", 13010, kLegacy, "cuStreamWaitValue32_v9", ""},
        // Bindings ask for the version that brought the function, older than the twin that the flag means.
        {"cuStreamSynchronize", 2000, kPerThread, "cuStreamSynchronize_ptsz", "cuStreamSynchronize_ptsz"},
        {"cuMemcpyHtoDAsync", 3020, kPerThread, "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync_v2_ptsz"},
        {"cuMemcpyHtoDAsync", 3020, kPerThread, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2"},
    };
    for (const Asked& asked : cases) {
        CAPTURE(asked.symbol);
        CAPTURE(asked.given);
        CHECK(ask(asked.symbol, in_driver(asked.given), asked.version, asked.mode) == asked.expect);
    }
}

TEST_CASE("every form is handed out for the version that brought it") {
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const int mode = strchr(row.since, '_') != nullptr ? kPerThread : kLegacy;
        CHECK(ask(row.base, in_driver(row.name), atoi(row.since), mode) == row.name);
        CHECK(ask(row.base, in_driver(row.name), 0, mode) == row.name);
    }
}

TEST_CASE("the newest forms are those that the installed cuda.h means") {
    if (header_cuda_version > 13000) {
        MESSAGE("skipped: the installed cuda.h is newer than the table");
        return;
    }
    for (size_t i = 0; i < std::size(rows); ++i) {
        const std::string base = rows[i].base;
        CAPTURE(base);
        int elsewhere = 0;
        if (atoi(rows[i].since) > header_cuda_version || base == "cuCtxSynchronize" || base == "cuGraphInstantiate") {
            continue;
        }
        CHECK(ask(rows[i].base, &elsewhere, header_cuda_version, kLegacy) == header_names[i]);
        if (base != "cuGetProcAddress") {  // there it is a function of the header's own, which sets the flag
            CHECK(ask(rows[i].base, &elsewhere, header_cuda_version, kPerThread) == header_names_per_thread[i]);
        }
    }
}

// cuda.h 12 means cuGraphInstantiateWithFlags by this name, and so does a driver from a version on that no header
// tells: the wrapper of the form with more parameters hands on those of either.
TEST_CASE("cuGraphInstantiate is always taken for its longer form") {
    void* const other = in_driver("cuGraphInstantiateWithFlags");
    CHECK(ask("cuGraphInstantiate", other, 11040, kLegacy) == "cuGraphInstantiate_v2");
    CHECK(ask("cuGraphInstantiate", other, 13000, kLegacy) == "cuGraphInstantiate_v2");
    CHECK(ask("cuGraphInstantiateWithFlags", other, 13000, kLegacy) == "cuGraphInstantiateWithFlags");
}

TEST_CASE("nothing is handed out to NCCL, for nothing, or for what is ours already") {
    void* const real = in_driver("cuMemAlloc_v2");
    const void* const nccl = in("libnccl_copy1.so", "ncclGetVersion");
    REQUIRE((nccl != nullptr));
    CHECK((hand_out_driver("cuMemAlloc", real, 12000, false, nccl) == real));
    CHECK((hand_out_driver("cuMemAlloc", nullptr, 12000, false, nullptr) == nullptr));
    CHECK((hand_out_driver(nullptr, real, 12000, false, nullptr) == real));
    void* const ours = hand_out_driver("cuMemAlloc", real, 12000, false, nullptr);
    CHECK((ours != real));
    CHECK((hand_out_driver("cuMemAlloc", ours, 12000, false, nullptr) == ours));
}
