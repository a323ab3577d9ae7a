#include "nccl_config.h"

#include <cstddef>

namespace titan::tracer {

namespace {

// NCCL's own layout up to the last field that we read. interpose/wrappers/nccl_wrappers.cpp asserts it against nccl.h.
struct ConfigPrefix {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char* net_name;
    int split_share;
    int traffic_class;
    const char* comm_name;
};

constexpr unsigned kMagic = 0xcafebeef;
constexpr unsigned kFirstVersionWithName = 22700;

}  // namespace

NcclConfig read_nccl_config(const void* config) {
    NcclConfig out{};
    const auto* const prefix = static_cast<const ConfigPrefix*>(config);
    if (prefix == nullptr || prefix->size < offsetof(ConfigPrefix, cga_cluster_size) || prefix->magic != kMagic) {
        return out;
    }
    out.nonblocking = prefix->blocking == 0;
    const bool has_name = prefix->size >= offsetof(ConfigPrefix, comm_name) + sizeof(prefix->comm_name);
    if (has_name && prefix->version >= kFirstVersionWithName) {
        out.name = prefix->comm_name;
    }
    return out;
}

}  // namespace titan::tracer
