// Fields of structures that others read while we write them. hot, any-thread, signal-safe.
#pragma once

#include <atomic>

namespace titan {

// One aligned store, never torn, in no order with others.
template <typename T>
void store_field(T& field, T value) {
    std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}

template <typename T>
T load_field(T& field) {
    return std::atomic_ref<T>(field).load(std::memory_order_relaxed);
}

}  // namespace titan
