#include "host_calls.h"

namespace titan::analyzer {
namespace {

struct Row {
    std::string_view prefix;
    std::string_view part;  // part of the rest of the name
    HostCall::Trait trait;
};

constexpr Row kRows[] = {
    {"nccl", "", HostCall::kNccl},
    {"nccl", "Init", HostCall::kCreation},
    {"nccl", "Split", HostCall::kCreation},
    {"ncclMem", "", HostCall::kCuda},  // memory of CUDA: NCCL does no more than ask for it
    {"ncclMem", "", HostCall::kSynchronising},
    {"cu", "", HostCall::kCuda},
    {"cu", "Synchronize", HostCall::kSynchronising},
    {"cu", "Memcpy", HostCall::kSynchronising},
    {"cu", "Memset", HostCall::kSynchronising},
    {"cu", "Free", HostCall::kSynchronising},
    {"cu", "Malloc", HostCall::kSynchronising},
    {"cu", "HostAlloc", HostCall::kSynchronising},
    {"cu", "ModuleLoad", HostCall::kSynchronising},
    {"cu", "FuncLoad", HostCall::kSynchronising},  // of lazy loading: it may wait for all work of the context
    {"cu", "Query", HostCall::kPolling},
    {"cu", "Async", HostCall::kAsynchronous},
    {"cu", "Launch", HostCall::kLaunch},
    {"cu", "Stream", HostCall::kOfStream},
    {"cu", "Event", HostCall::kOfEvent},
    {"cu", "Device", HostCall::kOfDevice},
    {"cu", "Ctx", HostCall::kOfDevice},
};

}  // namespace

HostCall::HostCall(std::string_view name) {
    for (const Row& row : kRows) {
        if (name.starts_with(row.prefix) && name.substr(row.prefix.size()).find(row.part) != std::string_view::npos) {
            traits_ |= row.trait;
        }
    }
}

}  // namespace titan::analyzer
