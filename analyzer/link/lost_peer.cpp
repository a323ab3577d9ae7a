#include "ends.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace titan::analyzer {
namespace {

// As the kernel, Gloo (gloo/transport/tcp/pair.cc), MPI and NCCL word it.
constexpr auto kLostPeer = std::to_array<std::string_view>({
    "Connection reset by peer",
    "Connection closed by peer",
    "Broken pipe",
    "remote process exited",
    "Socket closed",
});
constexpr int64_t kLastNs = 30'000'000'000;  // an error so long before the end was handled

}  // namespace

bool failed_for_a_peer(const Process& process) {
    const ErrorMark& error = process.last_error;
    const std::string& message = process.text(error.message);
    return process.ending.failed() && error.at_ns != 0 && process.now_ns - error.at_ns < kLastNs &&
           std::any_of(kLostPeer.begin(), kLostPeer.end(),
                       [&](std::string_view words) { return message.find(words) != std::string::npos; });
}

}  // namespace titan::analyzer
