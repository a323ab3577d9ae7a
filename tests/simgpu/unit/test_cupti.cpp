// CUPTI's callbacks, with the parameter structures of NVIDIA's generated headers.
#include <cupti.h>

#include <mutex>
#include <string>

#include "node.h"

using namespace simgpu_test;

namespace {

struct Heard {
    std::mutex lock;
    std::vector<std::string> calls;
    cudaStream_t stream = nullptr;
    CUstream driver_stream = nullptr;
    cudaError_t answer = cudaErrorUnknown;
    std::string symbol;
};

void CUPTIAPI hear(void* raw, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* raw_data) {
    auto& heard = *static_cast<Heard*>(raw);
    const auto& data = *static_cast<const CUpti_CallbackData*>(raw_data);
    std::lock_guard guard(heard.lock);
    const bool enter = data.callbackSite == CUPTI_API_ENTER;
    heard.calls.push_back((enter ? "+" : "-") + std::string(data.functionName));
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && id == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) {
        heard.stream = static_cast<const cudaLaunchKernel_v7000_params*>(data.functionParams)->stream;
        heard.symbol = data.symbolName ? data.symbolName : "";
    }
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
        heard.driver_stream = static_cast<const cuLaunchKernel_params*>(data.functionParams)->hStream;
    }
    if (!enter && domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
        heard.answer = *static_cast<const cudaError_t*>(data.functionReturnValue);
    }
}

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("one subscriber hears of the calls that it asked for, in both domains") {
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    Heard heard;
    CUpti_SubscriberHandle first = nullptr, second = nullptr;
    REQUIRE(cuptiSubscribe(&first, hear, &heard) == CUPTI_SUCCESS);
    CHECK(cuptiSubscribe(&second, hear, &heard) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    float data = 0;
    simgpu_launch_add(&data, 1, 1, stream);
    CHECK(heard.calls.empty());
    CHECK(cuptiEnableCallback(1, first, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) ==
          CUPTI_SUCCESS);
    CHECK(cuptiEnableCallback(1, first, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) ==
          CUPTI_SUCCESS);
    simgpu_launch_add(&data, 1, 1, stream);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(heard.calls == Calls{"+cudaLaunchKernel", "+cuLaunchKernel", "-cuLaunchKernel", "-cudaLaunchKernel"});
    CHECK(heard.stream == stream);
    CHECK(heard.driver_stream == stream);
    CHECK(heard.symbol == "simgpu_add_kernel");
    CHECK(heard.answer == cudaSuccess);
    heard.calls.clear();
    CHECK(cuptiEnableDomain(1, first, CUPTI_CB_DOMAIN_RUNTIME_API) == CUPTI_SUCCESS);
    CHECK(cudaStreamQuery(stream) == cudaSuccess);
    CHECK(heard.calls == Calls{"+cudaStreamQuery", "-cudaStreamQuery"});
    CHECK(cuptiUnsubscribe(first) == CUPTI_SUCCESS);
    heard.calls.clear();
    CHECK(cudaStreamQuery(stream) == cudaSuccess);
    CHECK(heard.calls.empty());
    CHECK(cuptiSubscribe(&second, hear, &heard) == CUPTI_SUCCESS);
    CHECK(cuptiUnsubscribe(second) == CUPTI_SUCCESS);
    CHECK(cuptiUnsubscribe(second) == CUPTI_ERROR_INVALID_PARAMETER);
    cudaStreamDestroy(stream);
}
