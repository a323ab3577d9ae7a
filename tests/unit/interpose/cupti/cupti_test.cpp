// CUPTI mode against a tiny libcupti: what is enabled, what becomes of its callbacks, and that a profiler goes first.
#include "api.h"  // before cuda.h, which renames some functions by macro
//
#include "cupti_mode.h"

#include <cupti.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>

#include <string>

#include "fixture.h"
#include "thread_state.h"

using namespace titan;

namespace {

constexpr auto kRuntime = CUPTI_CB_DOMAIN_RUNTIME_API;
constexpr auto kDriver = CUPTI_CB_DOMAIN_DRIVER_API;

void* const kStream = reinterpret_cast<void*>(0x5100);
void* const kEvent = reinterpret_cast<void*>(0x5200);
const void* const kFunction = reinterpret_cast<const void*>(0x5300);

using Tell = int(int domain, uint32_t id, const void* data);

Tell* tiny_cupti() {
    void* const library = dlopen("libcupti.so.13", RTLD_NOLOAD | RTLD_LAZY);
    const auto tell = library != nullptr ? reinterpret_cast<Tell*>(dlsym(library, "tiny_cupti_tell")) : nullptr;
    REQUIRE((tell != nullptr));
    return tell;
}

bool tell(CUpti_CallbackDomain domain, uint32_t id, CUpti_ApiCallbackSite site, const void* parameters,
          uint32_t correlation, int result = 0, const char* symbol = nullptr) {
    CUpti_CallbackData data{};
    data.callbackSite = site;
    data.functionParams = parameters;
    data.functionReturnValue = site == CUPTI_API_EXIT ? &result : nullptr;
    data.symbolName = symbol;
    data.correlationId = correlation;
    return tiny_cupti()(domain, id, &data) == 1;
}

template <typename Parameters>
bool call(CUpti_CallbackDomain domain, uint32_t id, const Parameters& parameters, uint32_t correlation, int result = 0,
          const char* symbol = nullptr) {
    return tell(domain, id, CUPTI_API_ENTER, &parameters, correlation, 0, symbol) &&
           tell(domain, id, CUPTI_API_EXIT, &parameters, correlation, result, symbol);
}

std::string text_of(uint32_t id) {
    const auto& header = *test::recording().header;
    const char* const base = reinterpret_cast<const char*>(&header);
    const format::StringRecord* record = nullptr;
    const char* heap = nullptr;
    for (const auto& region : header.regions) {
        if (region.kind == format::RegionKind::kStringIndex && id != 0) {
            record = reinterpret_cast<const format::StringRecord*>(base + region.offset_bytes) + id - 1;
        } else if (region.kind == format::RegionKind::kStringHeap) {
            heap = base + region.offset_bytes;
        }
    }
    return record != nullptr ? std::string(heap + record->offset_bytes, record->length_bytes - 1) : "";
}

format::StreamWorkEntry& newest_work() {
    auto& ring = test::recording().stream_work;
    format::StreamWorkEntry* const entry = ring.find(ring.head() - 1);
    REQUIRE(entry != nullptr);
    return *entry;
}

// The order matters: whoever subscribes once has CUPTI.
void begin() {
    static const bool once = [] {
        tracer::set_bindings({.apis = {interpose::api_names, interpose::kApiIds},
                              .kernel_name = nullptr,
                              .find_driver = nullptr,
                              .find_nvml = nullptr,
                              .nccl_version = nullptr,
                              .session_started = nullptr});
        test::recording();
        setenv("CUDA_INJECTION64_PATH", "/a/profiler.so", 1);
        CHECK_FALSE(interpose::start_cupti());
        unsetenv("CUDA_INJECTION64_PATH");
        setenv("TINY_CUPTI_TAKEN", "1", 1);
        CHECK_FALSE(interpose::start_cupti());
        unsetenv("TINY_CUPTI_TAKEN");
        CHECK(interpose::start_cupti());
        CHECK_FALSE(interpose::start_cupti());  // taken: by ourselves
        return true;
    }();
    REQUIRE(once);
}

}  // namespace

TEST_CASE("a synchronisation is recorded once, with what it waits for, though the runtime calls the driver") {
    begin();
    auto& ring = test::recording().cuda_calls;
    const uint64_t before = ring.head();
    const cudaStreamSynchronize_v3020_params outer{static_cast<cudaStream_t>(kStream)};
    const cuStreamSynchronize_params inner{static_cast<CUstream>(kStream)};
    CHECK(tell(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, CUPTI_API_ENTER, &outer, 1));
    CHECK(call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, inner, 1));
    REQUIRE(ring.head() == before + 1);
    const format::CudaCallEntry& entry = *ring.find(before);
    CHECK(entry.object == reinterpret_cast<uint64_t>(kStream));
    CHECK(text_of(entry.name) == "cudaStreamSynchronize");
    CHECK(entry.returned_ticks == 0);
    CHECK(text_of(tracer::this_thread()->record->call) == "cudaStreamSynchronize");
    CHECK(tell(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, CUPTI_API_EXIT, &outer, 1, 719));
    CHECK(entry.returned_ticks != 0);
    CHECK(entry.result == 719);
    CHECK(tracer::this_thread()->inside == 0);
}

TEST_CASE("launches tell their kernel, grid and stream, in the runtime and in the driver") {
    begin();
    const cudaLaunchKernel_v7000_params runtime{
        kFunction, dim3(4, 3, 2), dim3(32), nullptr, 0, static_cast<cudaStream_t>(kStream)};
    CHECK(call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, runtime, 2, 0, "_Z6kernelv"));
    CHECK(newest_work().kind == format::WorkKind::kKernel);
    CHECK(newest_work().stream == reinterpret_cast<uint64_t>(kStream));
    CHECK(newest_work().object == reinterpret_cast<uint64_t>(kFunction));
    CHECK(newest_work().amount == 24);
    CHECK(text_of(newest_work().name) == "_Z6kernelv");
    CHECK(text_of(newest_work().call) == "cudaLaunchKernel");
    cuLaunchKernel_params driver{};
    driver.f = reinterpret_cast<CUfunction>(0x5400);
    driver.gridDimX = 5;
    driver.gridDimY = driver.gridDimZ = 1;
    driver.hStream = static_cast<CUstream>(kStream);
    CHECK(call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, driver, 3));
    CHECK(newest_work().amount == 5);
    CHECK(newest_work().object == 0x5400);
    CHECK(text_of(newest_work().name) == "cuLaunchKernel");  // nobody told its name
    CHECK(tracer::this_thread()->inside == 0);
}

TEST_CASE("events, copies and queries") {
    begin();
    const cudaEventRecord_v3020_params record{static_cast<cudaEvent_t>(kEvent), static_cast<cudaStream_t>(kStream)};
    CHECK(call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, record, 4));
    CHECK(newest_work().kind == format::WorkKind::kEventRecord);
    CHECK(newest_work().object == reinterpret_cast<uint64_t>(kEvent));
    const cuStreamWaitEvent_params wait{static_cast<CUstream>(kStream), static_cast<CUevent>(kEvent), 0};
    CHECK(call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, wait, 5));
    CHECK(newest_work().kind == format::WorkKind::kEventWait);
    const cudaMemcpyAsync_v3020_params copy{kStream, kEvent, 4096, cudaMemcpyDefault,
                                            static_cast<cudaStream_t>(kStream)};
    CHECK(call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, copy, 6));
    CHECK(newest_work().amount == 4096);
    const uint64_t queries = tracer::this_thread()->record->queries;
    const cudaEventQuery_v3020_params query{static_cast<cudaEvent_t>(kEvent)};
    CHECK(call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020, query, 7));
    CHECK(tracer::this_thread()->record->queries == queries + 1);
}

TEST_CASE("only what a row records is enabled") {
    begin();
    const int nothing = 0;
    CHECK_FALSE(tell(kDriver, CUPTI_DRIVER_TRACE_CBID_cuDeviceGetCount, CUPTI_API_ENTER, &nothing, 8));
    CHECK_FALSE(tell(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceCount_v3020, CUPTI_API_ENTER, &nothing, 8));
}

TEST_CASE("an exit without its enter does no harm") {
    begin();
    const cudaStreamSynchronize_v3020_params parameters{};
    CHECK(tell(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, CUPTI_API_EXIT, &parameters, 9));
    CHECK(tracer::this_thread()->inside == 0);
}
