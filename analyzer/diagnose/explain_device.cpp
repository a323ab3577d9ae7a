// Words for the state of the GPU: the work that blocks a stream, the members that have started, the channels of NCCL
// that wait.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "explain.h"
#include "host/words.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

constexpr size_t kShownPieces = 4;
constexpr size_t kShownRanks = 4;
constexpr size_t kComparedRanks = 16;  // all run the same program: thousands would tell no more
constexpr size_t kShownChannels = 6;

// "kernel gemm (x12), kernel gelu", oldest first, equal ones together.
std::string pieces_text(const Process& process, const Ahead& ahead) {
    std::vector<std::pair<std::string, size_t>> kinds;
    for (const uint32_t index : ahead.work) {
        const std::string text = work_text(process, process.work[index]);
        const auto known = std::ranges::find_if(kinds, [&](const auto& kind) { return kind.first == text; });
        if (known == kinds.end()) {
            kinds.emplace_back(text, 1);
        } else {
            ++known->second;
        }
    }
    std::string list;
    for (size_t i = 0; i < std::min(kinds.size(), kShownPieces); ++i) {
        list += (list.empty() ? "" : ", ") + kinds[i].first;
        list += kinds[i].second > 1 ? fmt::format(" (x{})", kinds[i].second) : "";
    }
    return kinds.size() > kShownPieces || ahead.more_work != 0 ? list + " and more" : list;
}

bool has_run(const Process& process, const std::string& name) {
    return std::ranges::any_of(process.work_done,
                               [&](const auto& kernel) { return process.text(kernel.first) == name; });
}

bool has_started(const Waiter& waiter) {
    return waiter.entry != nullptr &&
           (waiter.entry->device == DeviceState::kStarted || waiter.entry->device == DeviceState::kGraphStarted);
}

// The place of the work, as seen from the call; `only`: one piece of it.
const char* where_text(const Process& process, const Blocked& blocked, const StreamWork* only = nullptr) {
    const Ahead& ahead = blocked.ahead;
    const auto elsewhere = [&](const StreamWork& work) { return work.stream != blocked.entry->stream; };
    const bool other_stream =
        only != nullptr ? elsewhere(*only)
                        : std::ranges::any_of(ahead.work, [&](uint32_t work) { return elsewhere(process.work[work]); });
    return !other_stream     ? ""
           : ahead.implicit  ? " on another stream that it may wait for by the rules of the default stream"
           : only == nullptr ? " and on streams that it waits for by events"
                             : " on a stream that it waits for by an event";
}

const char* witness_text(const Process& process) {
    return process.gpu_method == format::GpuProgressMethod::kWrites ? "its own stream reports it"
                                                                    : "the event of its start has not completed";
}

void add_blocked_evidence(const Run& run, const WaitNode& node, const Blocked& blocked, const BlockedBy& by,
                          Finding& finding) {
    const Process& process = run.process(blocked.member);
    const int rank = run.member(blocked.member).global_rank;
    const Ahead& ahead = blocked.ahead;
    finding.evidence.push_back(
        phrase("{}: the GPU has not reached {} ({})", rank_fact(rank), node_fact(run, node), witness_text(process)));
    if (by.work != nullptr) {
        finding.evidence.push_back(phrase("{}: ahead of it{}: {}", rank_fact(rank),
                                          where_text(process, blocked, by.work), work_details(process, *by.work)));
    }
    if (by.by_comparison) {
        finding.evidence.push_back(
            phrase("{}: {} pieces of work are ahead and not known to be done; it is the only one whose kind "
                   "has never ended before, neither here nor on the ranks that wait",
                   rank_fact(rank), grouped_digits(ahead.size())));
    }
    if (ahead.size() > 1) {
        finding.evidence.push_back(phrase("{}: ahead of it{}, oldest first, none known to be done: {}", rank_fact(rank),
                                          where_text(process, blocked), pieces_text(process, ahead)));
    }
    const bool legacy = std::ranges::any_of(ahead.work, [&](uint32_t work) {
        return is_legacy_stream(process.work[work].stream) != is_legacy_stream(blocked.entry->stream);
    });
    if (legacy) {
        finding.evidence.push_back(
            phrase("{}: the legacy default stream and all streams not made with cudaStreamNonBlocking wait "
                   "for each other; "
                   "which kind a stream is was not recorded",
                   rank_fact(rank)));
    }
}

std::string channels_list(const std::vector<uint16_t>& channels) {
    std::vector<int> numbers(channels.begin(), channels.end());
    return fmt::format("{} {}", plural(channels.size(), "channel"), rank_list(std::move(numbers)));
}

std::string_view state_text(format::ChannelState state) {
    switch (state) {
#define TITAN_CHANNEL_TEXT(number, id, name, text) \
    case format::ChannelState::id: return text;
        TITAN_CHANNEL_STATES(TITAN_CHANNEL_TEXT)
#undef TITAN_CHANNEL_TEXT
    }
    return "in an unknown state";
}

// Adds the state of one member's kernel channels and of its proxy's network steps.
void add_channel_evidence(const Run& run, const Waiter& waiter, std::vector<std::string>& lines) {
    const Process& process = run.process(waiter.member);
    const auto index = static_cast<uint32_t>(waiter.entry - process.entries.data());
    const Member& member = run.member(waiter.member);
    using Key = std::tuple<format::ChannelRole, format::ChannelState, int32_t>;
    std::map<Key, std::vector<const ChannelWork*>> groups;
    for (const ChannelWork& work : process.channels) {
        if (work.entry == index && work.state != format::ChannelState::kDone) {
            groups[{work.role, work.state, work.peer}].push_back(&work);
        }
    }
    for (const auto& [key, works] : groups) {
        const auto& [role, state, peer] = key;
        std::vector<uint16_t> channels;
        for (const ChannelWork* work : works) {
            channels.push_back(work->channel);
        }
        std::string line = fmt::format("rank {}: ", member.global_rank);
        if (role == format::ChannelRole::kKernelChannel) {
            line += fmt::format("the kernel on {} has {}", channels_list(channels),
                                state == format::ChannelState::kNotStarted ? "not started" : "started and not stopped");
        } else {
            const int global =
                member.communicator == kNoIndex ? -1 : run.global_rank(run.communicators[member.communicator], peer);
            const std::string other =
                global >= 0
                    ? fmt::format(" {} rank {}", role == format::ChannelRole::kProxySend ? "to" : "from", global)
                    : std::string();
            line += fmt::format("proxy {}{} on {}: {}", format::name_of(role), other, channels_list(channels),
                                state_text(state));
            if (works.front()->steps != 0) {
                line += fmt::format(", {} of {} steps done", works.front()->steps_done, works.front()->steps);
            }
        }
        lines.push_back(line);
    }
    for (const ChannelCounts& counts : process.channel_counts) {
        if (counts.entry == index && groups.empty()) {
            lines.push_back(fmt::format("rank {}: of {} kernel channels {} started and {} stopped", member.global_rank,
                                        counts.channels, counts.started, counts.finished));
        }
    }
}

}  // namespace

BlockedBy find_blocker(const Run& run, const WaitNode& node, const Blocked& blocked) {
    const Process& process = run.process(blocked.member);
    const Ahead& ahead = blocked.ahead;
    if (ahead.size() == 1) {
        return {&process.work[ahead.work.front()], false};
    }
    // All ranks run the same program: work of a kind that has ended before, here or there, hardly hangs.
    std::vector<const Process*> others;
    for (const Waiter& waiter : node.waiting) {
        if (waiter.member.process != blocked.member.process && others.size() < kComparedRanks && has_started(waiter)) {
            others.push_back(&run.process(waiter.member));
        }
    }
    const StreamWork* first = nullptr;
    std::set<uint32_t> names;
    for (const uint32_t index : ahead.work) {
        const StreamWork& work = process.work[index];
        const std::string& name = process.text(work.name);
        if (name.empty() || has_run(process, name) ||
            std::ranges::any_of(others, [&](const Process* other) { return has_run(*other, name); })) {
            continue;
        }
        names.insert(work.name);
        first = first == nullptr ? &work : first;
    }
    const bool comparable = !process.work_done.empty() || !others.empty();
    return names.size() == 1 && comparable && ahead.more_work == 0 ? BlockedBy{first, true} : BlockedBy{};
}

std::string blocker_text(const Run& run, const Blocked& blocked, const BlockedBy& by) {
    const Process& process = run.process(blocked.member);
    const Ahead& ahead = blocked.ahead;
    if (ahead.work.empty()) {
        return "what is ahead of it there was not recorded";
    }
    if (by.work != nullptr) {
        return work_text(process, *by.work) + " is ahead of it" + where_text(process, blocked, by.work);
    }
    return fmt::format("one of {} pieces of work that it waits for does not end: {}", grouped_digits(ahead.size()),
                       pieces_text(process, ahead));
}

void explain_blocked(const Run& run, const WaitNode& node, const std::vector<const Blocked*>& blocked,
                     Finding& finding) {
    const bool one = finding.ranks.size() == 1;
    std::vector<int> others = waiting_ranks(run, node);
    std::erase_if(others, [&](int rank) { return std::ranges::find(finding.ranks, rank) != finding.ranks.end(); });
    finding.summary = phrase("{} called {}, but {} never reached it: {}", ranks_fact(finding.ranks),
                             node_fact(run, node), one ? "its stream" : "their streams",
                             blocker_text(run, *blocked.front(), find_blocker(run, node, *blocked.front())));
    if (!others.empty()) {
        finding.summary += phrase("; {} [waits|wait] for {}", ranks_fact(others), duration_fact(longest_wait_ns(node)));
    }
    if (const Sentence waiting = waiting_fact(run, node); !waiting.empty()) {
        finding.evidence.push_back(waiting);
    }
    for (size_t i = 0; i < std::min(kShownRanks, blocked.size()); ++i) {
        add_blocked_evidence(run, node, *blocked[i], find_blocker(run, node, *blocked[i]), finding);
    }
    if (blocked.size() > kShownRanks) {
        finding.evidence.push_back(phrase("and {} likewise", counted(blocked.size() - kShownRanks, "more rank")));
    }
    add_device_evidence(run, node, finding);
}

bool members_started(const WaitNode& node, size_t least) {
    return std::ranges::count_if(node.waiting, [](const Waiter& waiter) {
               return waiter.entry != nullptr && waiter.entry->device == DeviceState::kStarted;
           }) >= static_cast<std::ptrdiff_t>(least);
}

void add_device_evidence(const Run& run, const WaitNode& node, Finding& finding) {
    std::map<DeviceState, std::vector<int>> ranks;
    std::vector<std::string> channels;
    for (const Waiter& waiter : node.waiting) {
        if (waiter.entry != nullptr) {
            ranks[waiter.entry->device].push_back(run.member(waiter.member).global_rank);
            add_channel_evidence(run, waiter, channels);
        }
    }
    const bool nobody_knows = ranks.empty() || (ranks.size() == 1 && ranks.contains(DeviceState::kUnknown));
    if (!nobody_knows) {
        const auto add = [&](DeviceState state, const char* text) {
            if (const auto found = ranks.find(state); found != ranks.end()) {
                finding.evidence.push_back(phrase("on the GPU of {}: {}", ranks_fact(found->second), text));
            }
        };
        add(DeviceState::kStarted, "started, not finished");
        add(DeviceState::kGraphStarted,
            "the graph launch that holds it has started; which of its collectives runs is not known");
        add(DeviceState::kNotReached, "not reached");
        add(DeviceState::kUnknown, "unknown");
    }
    for (size_t i = 0; i < std::min(kShownChannels, channels.size()); ++i) {
        finding.evidence.push_back(channels[i]);
    }
    if (channels.size() > kShownChannels) {
        finding.evidence.push_back(
            phrase("and {} more lines on channels (titan-analyze show --channels)", channels.size() - kShownChannels));
    }
}

}  // namespace titan::analyzer
