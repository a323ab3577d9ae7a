#include "rank_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"
#include "host_calls.h"
#include "host_threads.h"
#include "host_wait.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

std::string in_step(const Process& process) {
    return process.step >= 0 ? fmt::format(", step {}", process.step) : std::string();
}

std::string in_span(const Process& process, const ThreadState& thread) {
    return thread.spans.empty() || thread.spans.back() == 0 ? std::string()
                                                            : ", span " + process.text(thread.spans.back());
}

std::string inside_call(const Run& run, const Process& process, const ThreadState& thread, bool times,
                        const std::string& awaited) {
    const HostCall call(process.text(thread.call));
    std::string text = fmt::format("{} {}", call.preposition(), process.text(thread.call));
    const Entry* entry = call.is_nccl() && thread.ticket != 0 ? process.entry_of_ticket(thread.ticket - 1) : nullptr;
    if (entry != nullptr && entry->row != kNoIndex && process.members[entry->row].communicator != kNoIndex) {
        text += " (" +
                call_text(run.communicators[process.members[entry->row].communicator], entry->kind, entry->sequence) +
                ")";
    }
    if (times) {
        text += " for " + duration_text(process.now_ns - thread.entered_ns);
    }
    text += awaited.empty() ? "" : ", waiting for " + awaited;
    return text + in_span(process, thread) + in_step(process);
}

std::string in_program(const Process& process, const ThreadState& thread, bool times) {
    std::string text = "in program code" + in_span(process, thread) + in_step(process);
    if (thread.group_depth > 0) {
        text += ", an NCCL group is open";
    }
    if (thread.last_call != 0) {
        text += "; last call " + process.text(thread.last_call);
        if (times && thread.last_call_ns != 0) {
            text += " returned " + duration_text(process.now_ns - thread.last_call_ns) + " before the dump";
        }
    }
    return text;
}

std::string gone(const Run& run, const Process& process) {
    const std::string last = last_call_text(run, process);
    const std::string recorded = !last.empty()       ? "; last recorded: " + last
                                 : process.step >= 0 ? in_step(process)
                                                     : "; nothing recorded";
    switch (process.liveness) {
        case Liveness::kCrashed:
            return fmt::format("crashed ({}, pid {}){}",
                               process.fatal_signal != 0 ? signal_text(process.fatal_signal) : "fatal signal",
                               process.pid, recorded);
        case Liveness::kKilled:
            return process.ending.unchecked ? fmt::format("perhaps dead (pid {}){}", process.pid, recorded)
                                            : fmt::format("dead (pid {} gone){}", process.pid, recorded);
        default:
            return fmt::format("exited{} (pid {}){}",
                               process.ending.exit_status >= 0
                                   ? fmt::format(" with status {}", process.ending.exit_status)
                                   : std::string(),
                               process.pid, recorded);
    }
}

// Describes a process whose record holds nothing but calls.
std::string by_calls(const Run& run, const Process& process, bool times) {
    const std::string last = last_call_text(run, process);
    if (last.empty()) {
        return "no call recorded";
    }
    const Entry& entry = process.entries.back();
    std::string text = fmt::format("last call {} ({})", last,
                                   entry.state == CallState::kFinished  ? "finished"
                                   : entry.state == CallState::kGrouped ? "in a group that is not ended"
                                                                        : "not finished");
    text += site_text(process, entry);
    return times && process.moment == Moment::kRecorded
               ? text + fmt::format(", called {} before its dump", duration_text(process.now_ns - entry.entered_ns))
               : text;
}

std::string state(const Run& run, const Process& process, bool times, const std::string& awaited) {
    if (process.is_gone()) {
        return gone(run, process);
    }
    if (!process.sees.host_calls) {
        return by_calls(run, process, times);
    }
    const ThreadState* thread = most_informative_thread_state(process);
    if (thread == nullptr) {
        const std::string last = last_call_text(run, process);
        return last.empty() ? "nothing recorded" : "last recorded: " + last;
    }
    return thread->call != 0 ? inside_call(run, process, *thread, times, awaited) : in_program(process, *thread, times);
}

}  // namespace

std::string last_call_text(const Run& run, const Process& process) {
    for (size_t i = process.entries.size(); i-- > 0;) {
        const Entry& entry = process.entries[i];
        if (entry.row == kNoIndex || process.members[entry.row].communicator == kNoIndex) {
            continue;
        }
        std::string text =
            call_text(run.communicators[process.members[entry.row].communicator], entry.kind,
                      format::class_of(entry.kind) == format::OpClass::lifecycle ? kNoSequence : entry.sequence);
        return entry.step >= 0 ? text + fmt::format(" at step {}", entry.step) : text;
    }
    return {};
}

std::string rank_state(const Run& run, const Process& process, const std::string& awaited) {
    return state(run, process, true, awaited);
}

std::string rank_state_without_times(const Run& run, const Process& process, const std::string& awaited) {
    return state(run, process, false, awaited);
}

StateTexts state_texts(const Evidence& evidence, const Process& process) {
    const ThreadState* thread = most_informative_thread_state(process);
    std::string awaited;
    if (thread != nullptr && thread->call != 0) {
        const auto index = static_cast<size_t>(&process - evidence.run.processes.data());
        awaited = awaited_text(evidence.run, process, *thread, QueueReader(process, evidence.graph.orders[index]));
    }
    return {rank_state(evidence.run, process, awaited), rank_state_without_times(evidence.run, process, awaited)};
}

}  // namespace titan::analyzer
