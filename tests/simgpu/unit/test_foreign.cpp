// Kernels of PyTorch that are computed on the host, by the names that its wheel registers and with its arguments'
// layout.
#include <cuda.h>

#include <array>
#include <string>

#include "node.h"

using namespace simgpu_test;

namespace {

const std::string kVectorized = "_ZN2at6native29vectorized_elementwise_kernelI";

// Launches the kernel of that name in code for a real GPU, and waits for it.
void run(const std::string& name, std::vector<void*> arguments, unsigned grid_y = 1) {
    static const uint32_t image[8] = {0x466243b1};
    REQUIRE(cudaFree(nullptr) == cudaSuccess);  // makes the context
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    REQUIRE(DRIVER(cuModuleLoadData)(&module, image) == CUDA_SUCCESS);
    REQUIRE(DRIVER(cuModuleGetFunction)(&function, module, name.c_str()) == CUDA_SUCCESS);
    REQUIRE(DRIVER(cuLaunchKernel)(function, 1, grid_y, 1, 64, 1, 1, 0, nullptr, arguments.data(), nullptr) ==
            CUDA_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(DRIVER(cuModuleUnload)(module) == CUDA_SUCCESS);
}

using Numbers = std::array<int64_t, 4>;

}  // namespace

TEST_CASE("a kernel of PyTorch that fills computes, one that nobody knows does not") {
    Numbers numbers = {1, 2, 3, 4};
    int count = 3;
    int64_t value = 7;
    char* data[] = {reinterpret_cast<char*>(numbers.data())};
    run(kVectorized + "Li2ENS0_11OtherFunctorIlEESt5arrayIPcLm1EELb0EEEviT0_T1_", {&count, &value, data});
    CHECK(numbers == Numbers{1, 2, 3, 4});
    run(kVectorized + "Li2ENS0_11FillFunctorIlEESt5arrayIPcLm1EELb0EEEviT0_T1_", {&count, &value, data});
    CHECK(numbers == Numbers{7, 7, 7, 4});
}

TEST_CASE("a comparison with a number, on other types than its own") {
    std::array<float, 4> losses = {0.5f, 2.0f, 1.0f, 3.0f};
    std::array<int32_t, 4> flags = {};
    int count = 4;
    struct {
        int operation = 1;  // greater
        int64_t than = 1;
    } function;
    char* data[] = {reinterpret_cast<char*>(flags.data()), reinterpret_cast<char*>(losses.data())};
    struct {
        int8_t type;
        uint32_t size = 4;
    } load{6}, store{3};
    char none = 0;
    run("_ZN2at6native27unrolled_elementwise_kernelIZNS0_21compare_scalar_kernelIlEEvRNS_18TensorIteratorBaseENS0_50_"
        "GLOBAL__"
        "N__30bf7ff7_17_CompareKernels_cu_8f1b29aa6OpTypeET_EUllE_"
        "St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESD_NS0_"
        "6memory12LoadWithCastILi1EEENSE_13StoreWithCastILi1EEEEEviS7_T0_T2_T3_T4_T5_",
        {&count, &function, data, &none, &none, &load, &store});
    CHECK(flags == std::array<int32_t, 4>{0, 1, 0, 1});
}

TEST_CASE("tensors put one after the other, as many as the grid is high") {
    struct {
        const char* data[128];
        uint32_t offset[128] = {0, 2}, size[128] = {2, 1}, elements[128] = {2, 1};
        bool contiguous[128];
        uint32_t shape[8];
    } inputs{};
    const int64_t first[] = {5, 6}, second[] = {7};
    inputs.data[0] = reinterpret_cast<const char*>(first);
    inputs.data[1] = reinterpret_cast<const char*>(second);
    Numbers result = {};
    char* to = reinterpret_cast<char*>(result.data());
    uint32_t shape[8] = {3, 0, 0, 0, 1};
    int along = 0;
    uint32_t stride = 1;
    run("_ZN2at6native40_GLOBAL__N__f1f992fe_8_Shape_cu_49f7391c35CatArrayBatchedCopy_alignedK_contigINS1_"
        "10OpaqueTypeILj8EEEj"
        "Li1ELi128ELi1ELi16EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_"
        "Lj4EEEiS8_",
        {&to, &inputs, shape, &along, &stride}, 2);
    CHECK(result == Numbers{5, 6, 7, 0});
}
