#include "bandwidth.h"

#include <algorithm>

namespace titan::analyzer {

double bus_bytes(OpKind kind, uint64_t bytes, int members) {
    const double n = std::max(members, 1);
    const auto passed = static_cast<double>(bytes);
    switch (kind) {
        case OpKind::kAllReduce: return passed * 2 * (n - 1) / n;
        case OpKind::kAllGather:
        case OpKind::kReduceScatter:
        case OpKind::kAllToAll: return passed * (n - 1);  // passed is the part of one member
        default: return passed;
    }
}

}  // namespace titan::analyzer
