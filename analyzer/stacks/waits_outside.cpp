#include "waits_outside.h"

#include <algorithm>
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

}  // namespace titan::analyzer
