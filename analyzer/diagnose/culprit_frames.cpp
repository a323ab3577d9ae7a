// Adds stacks to a finding: the positions of the culprits, and the frame where they part from the others.
#include "steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "function_name.h"
#include "gil.h"
#include "host/words.h"
#include "host_calls.h"
#include "later_step.h"
#include "named_stacks.h"
#include "thread_position.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxStacks = 16;  // most stacks of one finding

// The thread that makes the calls of the finding's communicator, where it is one of the program itself: PyTorch's
// threads for the backward pass call without a Python frame while the main thread has one.
const ThreadPosition* calling_thread(const Finding& finding, const Process& process) {
    const ThreadPosition* const main = working_position(process);
    for (uint32_t row = 0; row < process.members.size(); ++row) {
        if (finding.communicator == kNoIndex || process.members[row].communicator != finding.communicator) {
            continue;
        }
        const Entry* const call = newest_call_of(process, row);
        for (const ThreadPosition& position : process.positions) {
            const bool calls = call != nullptr && position.thread == static_cast<int32_t>(call->thread);
            if (calls && (position.python != kNoIndex || main == nullptr || main->python == kNoIndex)) {
                return &position;
            }
        }
    }
    return nullptr;
}

// A thread that ends the process for its hang, as PyTorch's monitors do, shows how it ended and not where the program
// hung.
const ThreadPosition& telling_position(const Finding& finding, const Process& process) {
    const bool crashed = process.liveness == Liveness::kCrashed && finding.kind == FindingKind::kRankDead;
    const ThreadPosition* const caller = crashed ? nullptr : calling_thread(finding, process);
    const ThreadPosition* const main = working_position(process);
    const bool crashed_in_hang = finding.kind != FindingKind::kRankDead && process.fatal_thread != 0;
    return caller != nullptr ? *caller : crashed_in_hang && main != nullptr ? *main : process.positions.front();
}

std::vector<StackFrame> frames_of(const Process& process, const ThreadPosition& position) {
    std::vector<StackFrame> frames;
    for (size_t i = 0; i < position.frames.size(); ++i) {
        const uint32_t library = i < position.libraries.size() ? position.libraries[i] : 0;
        frames.push_back({short_frame(process.text(position.frames[i])), process.text(library)});
    }
    return frames;
}

// The main threads of a run as one tree. Frames are told apart only by their text, so members in the same line share a
// branch.
StackNode tree_of_main_threads(const Run& run) {
    StackNode root;
    for (const Process& process : run.processes) {
        const ThreadPosition* const position = process.is_gone() ? nullptr : working_position(process);
        if (position != nullptr && process.rank >= 0) {
            std::vector<std::string> texts;
            std::transform(position->frames.rbegin(), position->frames.rend(), std::back_inserter(texts),
                           [&](uint32_t frame) { return short_frame(process.text(frame)); });
            add_stack(root, process.rank, texts);
        }
    }
    return root;
}

struct Parting {
    const StackNode* below = nullptr;  // the last frame that all share, the root where there is none
    const StackNode* culprits = nullptr;
    const StackNode* others = nullptr;  // the branch that most of them take
};

// Finds the frame where the culprits' path leaves that of the others.
std::optional<Parting> find_parting(const StackNode& root, const std::vector<int>& culprits) {
    const auto holds_all = [&](const StackNode& node) {
        return std::ranges::all_of(culprits, [&](int rank) { return node.ranks.contains(rank); });
    };
    const StackNode* node = &root;
    for (;;) {
        const auto next = std::ranges::find_if(node->children, holds_all);
        if (next == node->children.end()) {
            return std::nullopt;  // the culprits are in different places
        }
        if (next->ranks.size() > culprits.size()) {
            node = &*next;
            continue;
        }
        const auto most = std::ranges::max_element(node->children, [&](const StackNode& a, const StackNode& b) {
            return std::pair(&a != &*next, a.ranks.size()) < std::pair(&b != &*next, b.ranks.size());
        });
        return &*most == &*next ? std::nullopt : std::optional(Parting{node, &*next, &*most});
    }
}

void note_where_stacks_part(const Evidence& evidence, const StackNode& tree, Finding& finding) {
    std::vector<int> seen;
    std::ranges::copy_if(finding.ranks, std::back_inserter(seen), [&](int rank) { return tree.ranks.contains(rank); });
    const std::optional<Parting> parting = seen.empty() ? std::nullopt : find_parting(tree, seen);
    if (!parting) {
        return;
    }
    const auto way = [&](const StackNode& branch) {
        const std::vector<int> ranks(branch.ranks.begin(), branch.ranks.end());
        const Process& process = *evidence.process_of_rank[ranks.front()];
        const std::string place = place_text(process, *working_position(process));
        const size_t count = ranks.size();
        return fmt::format(
            "{} {} on to {}{}", ranks_text(ranks), verb_form(count, "goes", "go"), branch.text,
            place == branch.text ? std::string() : fmt::format(" and {} in {}", verb_form(count, "is", "are"), place));
    };
    finding.evidence.push_back(phrase("the stacks of {} main threads part{}: {}; {}", tree.ranks.size(),
                                      parting->below->text.empty() ? "" : " below " + parting->below->text,
                                      way(*parting->others), way(*parting->culprits)));
}

bool waits_for_gpu(const Process& process, const ThreadPosition& position) {
    if (position.native == kNoIndex) {
        return false;
    }
    const std::string& frame = process.text(position.frames[position.native]);
    return HostCall(frame.substr(0, frame.find(' '))).waits_for_gpu();
}

// Which thread that is, no record tells: those that are in Python and do not wait so themselves may be it.
void note_other_threads(const Process& process, const ThreadPosition& waiter, Finding& finding) {
    constexpr size_t kShownThreads = 3;
    std::vector<std::string> places;
    bool in_a_call = false;
    for (const ThreadPosition& other : process.positions) {
        if (&other != &waiter && other.python != kNoIndex && !waits_for_a_thread(process, other) &&
            places.size() < kShownThreads) {
            places.push_back(fmt::format("thread {} is in {}", other.thread, place_text(process, other)));
            in_a_call |= waits_for_gpu(process, other);
        }
    }
    doubt<Unknown::kLostCallOfThread>(
        finding, in_a_call && process.overwritten != 0 && finding.confidence == Confidence::kCertain,
        larger_ring_text(process));
    if (!places.empty()) {
        finding.evidence.push_back(phrase("{} waits there for another of its threads: {}", rank_fact(process.rank),
                                          fmt::format("{}", fmt::join(places, "; "))));
    }
}

// The thread has left the program's main function, not because a signal asked for that.
bool is_exiting(const Process& process, const ThreadPosition& position) {
    return !process.ending.asked() && std::ranges::any_of(position.frames, [&](uint32_t frame) {
        const std::string& text = process.text(frame);
        const bool of_libc = text.find("(libc.so") != std::string::npos;
        return text.starts_with("Py_FinalizeEx") ||
               (of_libc && (text.starts_with("exit ") || text.starts_with("__run_exit_handlers ")));
    });
}

// An error that several ranks end with at once, a timeout of their common wait above all, need not be the fault of the
// first.
void note_who_exits_too(const std::vector<int>& exiting, Finding& finding) {
    finding.evidence.push_back(phrase("{} [was|were] exiting, too, when [it|they] dumped", ranks_fact(exiting)));
    std::vector<int> all = finding.ranks;
    all.insert(all.end(), exiting.begin(), exiting.end());
    std::ranges::sort(all);
    depends_on<Unknown::kErrorsAlike>(finding, ranks_fact(all));
}

// The stack of a dead rank went with it. Where those stand that wait for it is the place in the program that it was
// going to. A launcher may end them before they get there.
void note_where_others_are(const Evidence& evidence, Finding& finding) {
    std::map<std::string, std::vector<int>> ranks_at;
    std::vector<int> exiting;
    const bool nobody_waits = finding.victims.empty();
    const std::vector<int>& asked = nobody_waits ? finding.ranks : finding.victims;
    for (const auto& [rank, process] : evidence.process_of_rank.by_rank) {
        const bool named = std::ranges::find(asked, rank) != asked.end();
        const ThreadPosition* const position = working_position(*process);
        if (position == nullptr || rank < 0 || named == nobody_waits) {
            continue;
        }
        if (nobody_waits && is_exiting(*process, *position)) {
            exiting.push_back(rank);
        } else {
            ranks_at[place_text(*process, *position)].push_back(rank);
        }
    }
    if (!exiting.empty()) {
        note_who_exits_too(exiting, finding);
    }
    constexpr size_t kShownPlaces = 3;
    size_t shown = 0;
    for (const auto& [place, ranks] : ranks_at) {
        if (shown++ < kShownPlaces) {
            finding.evidence.push_back(
                nobody_waits ? phrase("{} [was|were] in {}, not yet waiting for it", ranks_fact(ranks), place)
                             : phrase("{} [waits|wait] for it in {}", ranks_fact(ranks), place));
        }
    }
}

}  // namespace

void add_positions(const Evidence& evidence, std::vector<Finding>& findings) {
    std::optional<StackNode> tree;
    for (Finding& finding : findings) {
        if (!finding.hangs) {
            continue;  // positions of now say nothing about what was slow or wrong then
        }
        std::set<std::string> places;
        for (const int rank : finding.ranks) {
            const Process* const process = evidence.process_of_rank[rank];
            if (process == nullptr || process->positions.empty() ||
                (process->is_gone() && process->fatal_signal == 0)) {
                continue;
            }
            const ThreadPosition& position = telling_position(finding, *process);
            const std::string place = place_text(*process, position);
            const std::string text = place.empty()        ? process->text(position.why_none)
                                     : process->is_gone() ? "it was in " + place
                                                          : "is in " + place;
            places.insert(place);
            finding.rank_state[rank] += "; " + text;
            finding.brief_state[rank] += "; " + text;
            if (const ThreadPosition* holder = gil_holder(*process); holder != nullptr && holder != &position) {
                finding.evidence.push_back(gil_fact(*process, *holder));
            }
            if (row_of(finding.kind).clue == Clue::place && waits_for_a_thread(*process, position)) {
                note_other_threads(*process, position, finding);
            }
            if (!place.empty() && finding.stacks.size() < kMaxStacks) {
                finding.stacks[rank] = frames_of(*process, position);
            }
        }
        if (finding.kind == FindingKind::kRankDead && finding.stacks.empty()) {
            note_where_others_are(evidence, finding);
        }
        if (row_of(finding.kind).clue == Clue::place) {
            if (places.size() == 1 && !places.begin()->empty()) {
                finding.summary += phrase("; {} [is|are] in {}", ranks_fact(finding.ranks), *places.begin());
            }
            if (!tree) {
                tree = tree_of_main_threads(evidence.run);
            }
            note_where_stacks_part(evidence, *tree, finding);
        }
    }
}

}  // namespace titan::analyzer
