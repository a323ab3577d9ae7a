// ATen/native/cuda/Shape.cu: torch.cat of contiguous tensors. grid.y is the number of inputs, and they are described in
// the kernel's own parameters.
#include <cstdlib>
#include <cstring>

#include "foreign.h"

namespace simgpu::foreign {

namespace {

constexpr uint32_t kMaxInputs = 128, kMaxDimensions = 4;

struct Shape {
    uint32_t sizes[kMaxDimensions], strides[kMaxDimensions];
};

struct Inputs {
    const char* data[kMaxInputs];
    uint32_t offset[kMaxInputs];  // within the result, along the dimension
    uint32_t size[kMaxInputs];    // along the dimension
    uint32_t elements[kMaxInputs];
    bool contiguous[kMaxInputs];
    Shape shape;  // of none: they are contiguous
};

template <class T>
const T& argument(void** args, int index) {
    return *static_cast<const T*>(args[index]);
}

constexpr int kArguments = 5;

// Where an input's element lands in the result.
template <int dimensions>
size_t place(const Shape& result, int along, uint32_t size, uint32_t element) {
    size_t offset = 0;
    for (int dimension = dimensions - 1; dimension > 0; --dimension) {
        const uint32_t length = dimension == along ? size : result.sizes[dimension];
        offset += static_cast<size_t>(element % length) * result.strides[dimension];
        element /= length;
    }
    return offset + static_cast<size_t>(element) * result.strides[0];
}

// `bytes` are copied at a time: an element, or (in the kernel that is called vectorized) a vector of `vector` elements,
// which strides and the shape count in then.
template <int dimensions, size_t bytes, uint32_t vector>
void concatenate(void** args) {
    char* result = argument<char*>(args, 0);
    const auto& inputs = argument<Inputs>(args, 1);
    const auto& shape = argument<Shape>(args, 2);
    const int along = argument<int>(args, 3);
    const uint32_t stride = argument<uint32_t>(args, 4);
    const uint32_t count = static_cast<const uint32_t*>(args[kArguments + 1])[1];
    for (uint32_t input = 0; input < count; ++input) {
        const size_t begin = static_cast<size_t>(inputs.offset[input]) * stride / vector;
        const uint32_t size = vector > 1 ? inputs.size[input] * stride / vector : inputs.size[input];
        for (uint32_t element = 0; element < inputs.elements[input] / vector; ++element) {
            std::memcpy(result + (begin + place<dimensions>(shape, along, size, element)) * bytes,
                        inputs.data[input] + element * bytes, bytes);
        }
    }
}

constexpr size_t kVectorBytes = 16;

template <int dimensions>
SimgpuKernelBody body(uint32_t element_bytes, bool vectorized) {
    switch (element_bytes) {
        case 1: return vectorized ? concatenate<dimensions, kVectorBytes, 16> : concatenate<dimensions, 1, 1>;
        case 2: return vectorized ? concatenate<dimensions, kVectorBytes, 8> : concatenate<dimensions, 2, 1>;
        case 4: return vectorized ? concatenate<dimensions, kVectorBytes, 4> : concatenate<dimensions, 4, 1>;
        case 8: return vectorized ? concatenate<dimensions, kVectorBytes, 2> : concatenate<dimensions, 8, 1>;
        default: return nullptr;
    }
}

}  // namespace

bool find_concatenation(const TemplateName& name, SimgpuKernel* kernel) {
    // <OpaqueType<bytes>, index, dimensions, inputs, 1, ...>
    if (name.name.compare(0, 19, "CatArrayBatchedCopy") != 0 || name.arguments.size() < 5 ||
        name.arguments[1] != "unsigned int" || name.arguments[3] != std::to_string(kMaxInputs) ||
        name.arguments[4] != "1") {
        return false;
    }
    const TemplateName element = parse(name.arguments[0]);
    if (element.name != "OpaqueType" || element.arguments.size() != 1) {
        return false;
    }
    const auto bytes = static_cast<uint32_t>(std::atoi(element.arguments[0].c_str()));
    const bool vectorized = name.name == "CatArrayBatchedCopy_vectorized";
    switch (std::atoi(name.arguments[2].c_str())) {
        case 1: kernel->body = body<1>(bytes, vectorized); break;
        case 2: kernel->body = body<2>(bytes, vectorized); break;
        case 3: kernel->body = body<3>(bytes, vectorized); break;
        case 4: kernel->body = body<4>(bytes, vectorized); break;
        default: return false;
    }
    kernel->arg_count = kernel->body ? kArguments : 0;
    const uint32_t sizes[kArguments] = {sizeof(char*), sizeof(Inputs), sizeof(Shape), sizeof(int), sizeof(uint32_t)};
    std::memcpy(kernel->arg_bytes, sizes, sizeof(sizes));
    return kernel->body != nullptr;
}

}  // namespace simgpu::foreign
