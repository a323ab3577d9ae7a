// Kernels that wait for their counterparts on other GPUs: collectives that are not NCCL's. Nothing on record says which
// launches belong together, but their names and how often each rank made them do.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "explain.h"
#include "finders.h"
#include "function_name.h"
#include "host/words.h"
#include "host_wait.h"
#include "long_waits.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

// Parts of the names of such kernels, in small letters and without underscores.
constexpr auto kWaitingKernels = std::to_array<std::string_view>({
    "crossdevicereduce",      // custom all-reduce of vLLM and SGLang (custom_all_reduce.cuh)
    "oneshotallreduce",       // TensorRT-LLM (customAllReduceKernels.cu, mnnvlTwoShotAllreduceKernels.cu), FlashInfer,
    "twoshotallreduce",       // and PyTorch's symmetric memory (CUDASymmetricMemoryOps.cu)
    "allreducefusionkernel",  // TensorRT-LLM and FlashInfer (allReduceFusionKernels.cu)
    "multimemallreduce",      // PyTorch's symmetric memory
    "multimemoneshot",
    "waitsignalkernel",  // PyTorch's symmetric memory (CUDASymmetricMemory.cu)
    "barrieronstream",   // NVSHMEM (barrier.cu)
    "synconstream",
    "deepep",  // DeepEP's namespace deep_ep: dispatch, combine, notify_dispatch
});

bool waits_for_other_gpus(const std::string& name) {
    std::string plain;
    for (const char c : name) {
        if (c != '_') {
            plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    }
    return std::ranges::any_of(kWaitingKernels,
                               [&](std::string_view part) { return plain.find(part) != std::string::npos; });
}

// A rank whose stream stands in a kernel.
struct Stuck {
    const Process* process = nullptr;
    std::string name;  // for people
    int64_t waited_ns = 0;
};

// How often each process launched a kernel, by the name for people. Many groups ask about the same processes: their
// names are taken apart once.
class Launches {
  public:
    // Nothing where not all launches are on record.
    std::optional<uint64_t> of(const Process& process, const std::string& name) {
        const StreamCoverage& coverage = process.streams_seen;
        if (coverage.sampled || coverage.overwritten != 0 || coverage.torn != 0) {
            return std::nullopt;
        }
        const auto [counted, inserted] = counts_.try_emplace(&process);
        if (inserted) {
            counted->second = count(process);
        }
        const auto found = counted->second.find(name);
        return found == counted->second.end() ? 0 : found->second;
    }

  private:
    using Counts = std::map<std::string, uint64_t>;

    static Counts count(const Process& process) {
        Counts counts;
        for (const auto& [text, times] : process.work_done) {
            counts[short_kernel_name(process.text(text))] += times;
        }
        for (const StreamWork& work : process.work) {
            if (work.kind == WorkKind::kKernel) {
                ++counts[short_kernel_name(process.text(work.name))];
            }
        }
        return counts;
    }

    std::map<const Process*, Counts> counts_;
};

// The kernel that the process waits for, if it is one of those, and nothing ahead of it can be what blocks.
std::optional<Stuck> stuck_in_kernel(const Evidence& evidence, const Process& process) {
    const int64_t waited_ns = hangs_for_ns(evidence.run, process);
    if (waited_ns <= 0) {
        return std::nullopt;
    }
    const auto index = static_cast<size_t>(&process - evidence.run.processes.data());
    const QueueReader queues(process, evidence.graph.orders[index]);
    for (const ThreadState& thread : process.threads) {
        if (thread.call == 0) {
            continue;
        }
        const Ahead ahead = awaited_by(process, thread, queues);
        for (const uint32_t piece : ahead.work) {
            const StreamWork& work = process.work[piece];
            const std::string name = short_kernel_name(process.text(work.name));
            if (work.kind == WorkKind::kKernel && waits_for_other_gpus(name)) {
                return Stuck{&process, name, waited_ns};
            }
            if (process.gpu_method == format::GpuProgressMethod::kWrites) {
                break;  // the oldest one has not ended: what is behind it has not begun
            }
        }
    }
    return std::nullopt;
}

using StuckRanks = std::map<int, Stuck>;

// Ranks that exchange data in such a kernel, and those of them that have not launched it.
struct Unmatched {
    std::vector<int> waiting;
    std::vector<int> missing;
    bool counted = true;     // the numbers of launches tell it, too
    bool ambiguous = false;  // a smaller group is complete, and may be all who exchange data
};

// `members` exchange data if all of them wait in the same kernel, but for those that have launched it less often.
std::optional<Unmatched> unmatched_among(const Evidence& evidence, Launches& launched, const std::vector<int>& members,
                                         const StuckRanks& stuck, const Stuck& first) {
    Unmatched found;
    const std::optional<uint64_t> wanted = launched.of(*first.process, first.name);
    for (const int rank : members) {
        const auto at = stuck.find(rank);
        if (at != stuck.end() && at->second.name == first.name) {
            found.waiting.push_back(rank);
            continue;
        }
        const Process* const process = evidence.process_of_rank[rank];
        const std::optional<uint64_t> launches = process == nullptr ? std::nullopt : launched.of(*process, first.name);
        if (launches && wanted && (*launches == 0 || *launches >= *wanted)) {
            return std::nullopt;  // it takes no part, or has come
        }
        found.counted &= launches && wanted;
        found.missing.push_back(rank);
    }
    return found;
}

std::vector<int> ranks_of(const Run& run, const Communicator& communicator) {
    std::vector<int> ranks;
    for (const MemberRef member : communicator.members) {
        ranks.push_back(run.member(member).global_rank);
    }
    sort_unique(ranks);
    return ranks;
}

// Groups of ranks that may exchange data, the smallest first: libraries make their own groups, and these have the ranks
// of a communicator, or all.
std::vector<std::vector<int>> groups_of(const Run& run) {
    std::vector<std::vector<int>> groups;
    for (const Communicator& communicator : run.communicators) {
        if (std::vector<int> ranks = ranks_of(run, communicator); ranks.size() > 1) {
            groups.push_back(std::move(ranks));
        }
    }
    groups.push_back(run.ranks);
    std::ranges::stable_sort(groups, [](const auto& a, const auto& b) { return a.size() < b.size(); });
    return groups;
}

// The smallest group in which the kernel of `rank` lacks a counterpart, else the largest one in which all have launched
// it.
std::optional<Unmatched> unmatched_with(const Evidence& evidence, Launches& launched,
                                        const std::vector<std::vector<int>>& groups, const StuckRanks& stuck,
                                        int rank) {
    std::optional<Unmatched> complete;
    for (const std::vector<int>& group : groups) {
        if (!std::ranges::binary_search(group, rank)) {
            continue;
        }
        auto found = unmatched_among(evidence, launched, group, stuck, stuck.at(rank));
        if (found && !found->missing.empty()) {
            found->ambiguous = complete && found->missing.size() >= found->waiting.size();
            return found;
        }
        complete = found ? std::move(found) : std::move(complete);
    }
    return complete;
}

// Waits for ranks that stand in the kernel are its consequence.
void mark_explained(const Evidence& evidence, const Unmatched& unmatched, ToldSoFar& told, Finding& finding) {
    const auto waits = [&](const MemberRef member) {
        return std::ranges::binary_search(unmatched.waiting, evidence.run.process(member).rank);
    };
    std::vector<uint32_t> causes;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.node(index);
        const bool all_wait =
            std::ranges::all_of(node.absent, [&](const Absence& absence) { return waits(absence.member); }) &&
            std::ranges::all_of(node.blocked, [&](const Blocked& blocked) { return waits(blocked.member); });
        if (evidence.hangs(index) && !told.explained[index] && all_wait &&
            !(node.absent.empty() && node.blocked.empty())) {
            causes.push_back(index);
            told.is_cause[index] = true;
        }
    }
    for (const uint32_t index : nodes_behind(evidence.graph, causes)) {
        told.explained[index] = true;
    }
    evidence.add_victims(causes, finding);
}

std::string launched_text(const Process& process, const std::string& name, Launches& launched) {
    const std::optional<uint64_t> launches = launched.of(process, name);
    return launches ? fmt::format("rank {} launched {} {}", process.rank, name, counted(*launches, "time"))
                    : fmt::format("rank {}: not all of its launches are on record", process.rank);
}

// All have launched it, and it does not end.
void explain_complete(const Stuck& first, const Unmatched& complete, Finding& finding) {
    finding.kind = FindingKind::kStuckInFlight;
    finding.confidence = complete.counted ? Confidence::kLikely : Confidence::kPossible;
    finding.ranks = complete.waiting;
    finding.summary = phrase(
        "{} wait for {} in kernel {}, which exchanges data with other GPUs: all of them have "
        "launched it, and it does not end",
        ranks_fact(complete.waiting), duration_fact(finding.waited_ns), first.name);
}

void explain_missing(const StuckRanks& stuck, const Unmatched& unmatched, Finding& finding) {
    const Stuck& first = stuck.at(unmatched.waiting.front());
    finding.kind = FindingKind::kKernelUnmatched;
    finding.confidence = unmatched.counted && !unmatched.ambiguous ? Confidence::kLikely : Confidence::kPossible;
    finding.ranks = unmatched.missing;
    finding.victims = unmatched.waiting;
    finding.summary = phrase(
        "{} [waits|wait] for {} in kernel {}, which exchanges data with other GPUs; {} [has|have] not launched "
        "its counterpart",
        ranks_fact(unmatched.waiting), duration_fact(finding.waited_ns), first.name, ranks_fact(unmatched.missing));
    size_t in_another = 0;
    for (const int rank : unmatched.missing) {
        if (const auto at = stuck.find(rank); at != stuck.end()) {
            finding.evidence.push_back(phrase("{} is stuck in kernel {}", rank_fact(rank), at->second.name));
            ++in_another;
        }
    }
    if (in_another != 0 && in_another >= unmatched.waiting.size()) {  // neither side is the odd one
        finding.ranks.insert(finding.ranks.end(), unmatched.waiting.begin(), unmatched.waiting.end());
        sort_unique(finding.ranks);
        finding.victims.clear();
        finding.confidence = Confidence::kPossible;
    }
}

Finding finding_of(const Evidence& evidence, Launches& launched, const StuckRanks& stuck, const Unmatched& unmatched) {
    constexpr size_t kShown = 4;
    const Stuck& first = stuck.at(unmatched.waiting.front());
    Finding finding;
    for (const int rank : unmatched.waiting) {
        finding.waited_ns = std::max(finding.waited_ns, stuck.at(rank).waited_ns);
        const int64_t since_ns = stuck.at(rank).process->now_ns - stuck.at(rank).waited_ns;
        finding.since_ns = finding.since_ns == 0 ? since_ns : std::min(finding.since_ns, since_ns);
    }
    unmatched.missing.empty() ? explain_complete(first, unmatched, finding)
                              : explain_missing(stuck, unmatched, finding);
    std::vector<int> shown(
        unmatched.missing.begin(),
        unmatched.missing.begin() + static_cast<std::ptrdiff_t>(std::min(unmatched.missing.size(), kShown)));
    shown.push_back(unmatched.waiting.front());
    for (const int rank : shown) {
        if (const Process* const process = evidence.process_of_rank[rank]; process != nullptr) {
            finding.evidence.emplace_back(launched_text(*process, first.name, launched));
        }
    }
    finding.would_confirm.emplace_back(
        "the program: which ranks exchange data in that kernel is taken from its name and from the communicators");
    return finding;
}

}  // namespace

void find_unmatched_kernels(const Evidence& evidence, ToldSoFar& told) {
    StuckRanks stuck;
    for (const Process& process : evidence.run.processes) {
        if (process.rank >= 0) {
            if (auto found = stuck_in_kernel(evidence, process)) {
                stuck.emplace(process.rank, std::move(*found));
            }
        }
    }
    if (stuck.empty()) {
        return;
    }
    Launches launched;
    const std::vector<std::vector<int>> groups = groups_of(evidence.run);
    std::vector<Unmatched> found;
    for (const auto& [rank, first] : stuck) {
        if (auto unmatched = unmatched_with(evidence, launched, groups, stuck, rank)) {
            found.push_back(std::move(*unmatched));
        }
    }
    // What most ranks wait in is right where others stand in another kernel.
    std::ranges::stable_sort(
        found, [](const Unmatched& a, const Unmatched& b) { return a.waiting.size() > b.waiting.size(); });
    std::set<int> named;
    for (const Unmatched& unmatched : found) {
        if (named.contains(unmatched.waiting.front())) {
            continue;
        }
        named.insert(unmatched.waiting.begin(), unmatched.waiting.end());
        named.insert(unmatched.missing.begin(), unmatched.missing.end());
        Finding finding = finding_of(evidence, launched, stuck, unmatched);
        mark_explained(evidence, unmatched, told, finding);
        told.findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
