// Work that several threads take turns at.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

namespace titan::analyzer {

// How many small pieces of files are read at once: disks and file servers that are asked for many answer each sooner.
inline constexpr size_t kReadersAtOnce = 16;

// Calls run(next, is_first) on up to `threads` threads, of which the calling one is the first, and returns when all are
// through. next() hands out each index below `count` once, then nothing.
template <typename Run>
void share_work(size_t count, size_t threads, const Run& run) {
    std::atomic<size_t> taken{0};
    const auto next = [&]() -> std::optional<size_t> {
        const size_t index = taken++;
        return index < count ? std::optional(index) : std::nullopt;
    };
    std::vector<std::jthread> helpers;  // join when they are destroyed
    for (size_t i = 1; i < std::min(threads, count); ++i) {
        helpers.emplace_back([&] { run(next, false); });
    }
    run(next, true);
}

}  // namespace titan::analyzer
