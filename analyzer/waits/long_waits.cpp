#include "long_waits.h"

#include <algorithm>

#include "causes.h"
#include "host_calls.h"
#include "host_threads.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kLeastNs = 1'000'000'000;  // where no timeout is recorded

// The calls of a thread may all be overwritten, so that nothing but its wait shows that it makes any. PyTorch's
// watchdog makes none, and only polls.
bool may_wait_for_a_call(const Process& process, const ThreadState& thread) {
    const HostCall call(process.text(thread.call));
    const std::vector<const ThreadState*> issuing = issuing_threads(process);
    const bool issues = std::find(issuing.begin(), issuing.end(), &thread) != issuing.end();
    return issues ? call.is_nccl() || call.waits_for_gpu() : call.waits_for_gpu() && !call.polls();
}

}  // namespace

int64_t hangs_for_ns(const Run& run, const Process& process) {
    int64_t longest_ns = 0;
    for (const ThreadState& thread : process.threads) {
        if (thread.call != 0 && may_wait_for_a_call(process, thread)) {
            longest_ns = std::max(longest_ns, process.now_ns - thread.entered_ns);
        }
    }
    const int64_t least_ns = process.timeout_ns != 0 ? nearly_its_timeout_ns(process) : kLeastNs;
    const bool hangs = longest_ns >= least_ns && std::any_of(run.processes.begin(), run.processes.end(), called_a_hang);
    return hangs && !process.is_gone() ? longest_ns : 0;
}

}  // namespace titan::analyzer
