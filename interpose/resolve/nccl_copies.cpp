#include "nccl_copies.h"

#include <atomic>
#include <cstdint>

#include "base/loaded_objects.h"
#include "nccl_types.h"

namespace titan::interpose {

namespace {

constexpr uint32_t kMaxCopies = 8;

enum class Slot : uint32_t { kFree, kFilling, kReady };

struct Copy {
    std::atomic<Slot> state;
    const void* dynamic;  // names the library
    tracer::CommQueries queries;
    decltype(&::ncclGetVersion) version;
};
constinit Copy copies[kMaxCopies]{};

template <typename Function>
Function* question(const LoadedObject& library, const char* name, const char* profiling_name) {
    void* const found = function_in(library, profiling_name);
    return reinterpret_cast<Function*>(found != nullptr ? found : function_in(library, name));
}

void fill(Copy& copy, const LoadedObject& library) {
    using Ask = int(const void*, int*);
    // The tracer asks with plain addresses and integers, which is what ncclComm_t and ncclResult_t are in the ABI.
    copy.queries.size = question<Ask>(library, "ncclCommCount", "pncclCommCount");
    copy.queries.rank = question<Ask>(library, "ncclCommUserRank", "pncclCommUserRank");
    copy.queries.device = question<Ask>(library, "ncclCommCuDevice", "pncclCommCuDevice");
    copy.version = question<decltype(::ncclGetVersion)>(library, "ncclGetVersion", "pncclGetVersion");
}

const tracer::CommQueries* usable(const Copy& copy) {
    const tracer::CommQueries& queries = copy.queries;
    return queries.size != nullptr && queries.rank != nullptr && queries.device != nullptr ? &queries : nullptr;
}

// The last objects that were asked about; the lowest bit says NCCL. When one is closed and another takes its address,
// the answer for that one is wrong, and harmless: it gets a wrapper for a real function or the reverse.
constexpr size_t kRemembered = 16;
constinit std::atomic<uintptr_t> remembered[kRemembered]{};
constinit std::atomic<uint32_t> next{0};

}  // namespace

bool is_nccl(const void* address) {
    const LoadedObject object = object_of(address);
    if (!object) {
        return false;
    }
    const auto key = reinterpret_cast<uintptr_t>(object.dynamic);
    for (const std::atomic<uintptr_t>& slot : remembered) {
        const uintptr_t known = slot.load(std::memory_order_relaxed);
        if ((known & ~uintptr_t{1}) == key) {
            return (known & 1) != 0;
        }
    }
    const bool answer = function_in(object, "ncclGetVersion") != nullptr;
    remembered[next.fetch_add(1, std::memory_order_relaxed) % kRemembered].store(key | (answer ? 1 : 0),
                                                                                 std::memory_order_relaxed);
    return answer;
}

const tracer::CommQueries* queries_of(const void* function) {
    const LoadedObject library = function != nullptr ? object_of(function) : LoadedObject{};
    if (!library) {
        return nullptr;
    }
    for (Copy& copy : copies) {
        Slot state = Slot::kFree;
        if (copy.state.compare_exchange_strong(state, Slot::kFilling, std::memory_order_acquire)) {
            copy.dynamic = library.dynamic;
            fill(copy, library);
            copy.state.store(Slot::kReady, std::memory_order_release);
            return usable(copy);
        }
        if (state == Slot::kReady && copy.dynamic == library.dynamic) {
            return usable(copy);
        }
    }
    return nullptr;
}

int nccl_version() {
    int version = 0;
    const bool known = copies[0].state.load(std::memory_order_acquire) == Slot::kReady && copies[0].version != nullptr;
    return known && copies[0].version(&version) == ncclSuccess ? version : 0;
}

}  // namespace titan::interpose
