#include "bindings.h"

namespace titan::tracer {

namespace {

constinit Bindings set{};

}  // namespace

void keep_bindings(const Bindings& given) { set = given; }

const Bindings& bindings() { return set; }

bool find_kernel_name(FunctionKind kind, const void* function, const void* real, char* name, size_t bytes) {
    return set.kernel_name != nullptr && set.kernel_name(kind, function, real, name, bytes);
}

int find_nccl_version() { return set.nccl_version != nullptr ? set.nccl_version() : 0; }

}  // namespace titan::tracer
