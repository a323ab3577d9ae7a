#include "waits_outside.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "formats/layout/waits_outside_nccl.h"

namespace titan::analyzer {

std::string_view wait_outside_nccl(const Process& process, const ThreadPosition& position) {
    const auto is_in = [&](const format::WaitOutsideNccl& wait) {
        return std::any_of(position.frames.begin(), position.frames.end(),
                           [&](uint32_t frame) { return process.text(frame).starts_with(wait.begin); });
    };
    const auto found = std::find_if(std::begin(format::kWaitsOutsideNccl), std::end(format::kWaitsOutsideNccl), is_in);
    return found == std::end(format::kWaitsOutsideNccl) ? std::string_view() : found->what;
}

bool waits_for_an_answer(const Process& process, const ThreadPosition& position) {
    constexpr auto kReceives = std::to_array<std::string_view>(
        {"recv ", "__recv ", "__libc_recv ", "recvfrom ", "__recvfrom ", "__libc_recvfrom ", "recvmsg ", "__recvmsg ",
         "connect ", "__connect ", "poll ", "__poll ", "ppoll ", "epoll_wait ", "select ", "__select ", "pselect "});
    const auto is_receive = [&](std::string_view function) {
        return process.text(position.frames.front()).starts_with(function);
    };
    return !position.frames.empty() && (!wait_outside_nccl(process, position).empty() ||
                                        std::any_of(kReceives.begin(), kReceives.end(), is_receive));
}

}  // namespace titan::analyzer
