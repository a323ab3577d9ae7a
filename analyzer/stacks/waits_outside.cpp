#include "waits_outside.h"

#include <algorithm>
#include <iterator>

namespace titan::analyzer {
namespace {

struct Wait {
    std::string_view begin;  // of a frame's text: native frames are demangled names
    std::string_view what;
};

// Functions of PyTorch 2.0 to 2.13 (torch/csrc/distributed/c10d), gloo and the MPI standard. The first that fits
// counts; a wait of Gloo may hold one for the store inside, where it connects to its peers.
constexpr Wait kWaits[] = {
    {"c10d::ProcessGroupGloo::", "Gloo"},
    {"gloo::", "Gloo"},
    {"c10d::Work::wait(", "a collective of a CPU backend"},  // NCCL's work has a wait of its own
    {"c10d::ProcessGroupMPI::", "MPI"},
    {"MPI_", "MPI"},
    {"PMPI_", "MPI"},
    {"c10d::TCPStore::", "the store"},
    {"c10d::detail::TCPClient::", "the store"},
    {"c10d::PrefixStore::", "the store"},
    {"c10d::FileStore::", "the store"},
    {"c10d::HashStore::", "the store"},
};

}  // namespace

std::string_view wait_outside_nccl(const Process& process, const ThreadPosition& position) {
    const auto is_in = [&](const Wait& wait) {
        return std::any_of(position.frames.begin(), position.frames.end(),
                           [&](uint32_t frame) { return process.text(frame).starts_with(wait.begin); });
    };
    const auto found = std::find_if(std::begin(kWaits), std::end(kWaits), is_in);
    return found == std::end(kWaits) ? std::string_view() : found->what;
}

}  // namespace titan::analyzer
