// The fields of a digested process, each described once for writing and reading: `a` is a format::Packer or an
// format::Unpacker. Lists are written by column, numbers that rise as differences: zstd then finds the steps of the
// program in them. Tags are on disk (FORMAT.md, section 9): a changed field gets a new tag.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "formats/container/packed.h"
#include "run.h"

namespace titan::analyzer::digest {

enum class Tag : uint64_t {
    kHead = 1,
    kLosses = 2,
    kTexts = 3,
    kMembers = 4,
    kThreads = 5,
    kHistory = 6,
    kCallLogs = 7,
    kEntries = 8,
    kExchanges = 9,
    kWork = 10,
    kChannels = 11,
    kArrivals = 12,
    kSteps = 13,
    kCallTimes = 14,
    kLabels = 15,
    kPositions = 16,
    kStackSamples = 17,
    kEnding = 18,
    kProcessors = 19,
    kChildren = 20,
    kUnrecorded = 21,
    kFlightRecorder = 22,
    kConfig = 23,
    kMarks = 24,
    kHealth = 25,
    kStepStreams = 26,
    kObserving = 27,
};

template <typename A, typename T>
size_t sized(A& a, std::vector<T>& list, size_t least_bytes_each) {
    const size_t count = a.count(list.size(), least_bytes_each);
    if constexpr (A::kReads) {
        list.resize(count);
    }
    return count;
}

template <typename A, typename List, typename T>
void column(A& a, List& list, T List::value_type::*member) {
    for (auto& item : list) {
        a.number(item.*member);
    }
}

template <typename A, typename List, typename T>
void rising(A& a, List& list, T List::value_type::*member) {
    uint64_t before = 0;
    for (auto& item : list) {
        a.delta(item.*member, before);
    }
}

// Times that lie near another of the same item; 0 stays 0.
template <typename A, typename List, typename T>
void near(A& a, List& list, T List::value_type::*member, T List::value_type::*base) {
    for (auto& item : list) {
        const auto from = static_cast<uint64_t>(item.*base);
        uint64_t coded = item.*member == 0 ? 0 : format::zigzag(static_cast<uint64_t>(item.*member) - from) + 1;
        a.number(coded);
        if constexpr (A::kReads) {
            item.*member = coded == 0 ? 0 : static_cast<T>(from + format::unzigzag(coded - 1));
        }
    }
}

template <typename A, typename T>
void numbers(A& a, std::vector<T>& list) {
    sized(a, list, 1);
    for (T& number : list) {
        a.number(number);
    }
}

template <typename A, typename T>
void rising_numbers(A& a, std::vector<T>& list) {
    sized(a, list, 1);
    uint64_t before = 0;
    for (T& number : list) {
        a.delta(number, before);
    }
}

template <typename A, typename First, typename Second>
void pairs(A& a, std::vector<std::pair<First, Second>>& list) {
    sized(a, list, 2);
    for (auto& [first, second] : list) {
        a.number(first);
        a.number(second);
    }
}

template <typename A>
void head(A& a, Process& p) {
    a.text(p.source.label);
    std::string reason(format::name_of(p.source.reason));
    a.text(reason);
    p.source.reason = reason_named(reason);
    a.text(p.source.detail);
    a.text(p.run);
    a.text(p.host);
    a.text(p.boot_id);
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    bool by_flight_recorder = !p.sees.host_calls;
    all(p.source.is_ring, p.source.is_flight_recorder, p.condensed, p.source.dump_number, p.pid, p.pid_start_ticks,
        p.rank, p.world_size, p.attempt, p.liveness, p.fatal_signal, p.now_ns, p.started_ns, p.step, p.timeout_ns,
        p.gpu_progress, p.gpu_method, p.gpu_sample, p.starts_seen, p.partial_recording, by_flight_recorder,
        p.first_ticket, p.overwritten, p.torn, p.source.replaced_ns, p.starts_with_ends);
    p.sees = by_flight_recorder ? kFlightRecorderCoverage : Coverage();
    numbers(a, p.callers);
    sized(a, p.passed_pairs, 5);
    for (PeerCalls& calls : p.passed_pairs) {
        all(calls.row, calls.kind, calls.peer, calls.first, calls.last);
    }
}

template <typename A>
void observing(A& a, Process& p) {
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    all(p.observing.budget, p.observing.full_of, p.observing.light_of, p.observing.unit_launches, p.observing.unit_ns);
}

// Losses that this program does not know yet are left out.
template <typename A>
void losses(A& a, Process& p) {
    const size_t count = a.count(format::kLossCount, 1);
    for (size_t i = 0; i < count; ++i) {
        uint64_t unknown = 0;
        a.number(i < format::kLossCount ? p.losses[i] : unknown);
    }
}

template <typename A>
void texts(A& a, Process& p) {
    sized(a, p.texts, 1);
    for (std::string& text : p.texts) {
        a.text(text);
    }
}

template <typename A>
void unrecorded(A& a, Process& p) {
    sized(a, p.unrecorded, 1);
    for (std::string& text : p.unrecorded) {
        a.text(text);
    }
}

template <typename A>
void members(A& a, Process& p) {
    sized(a, p.members, 24);
    for (Member& m : p.members) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        all(m.id, m.parent_id, m.alias_id, m.issued, m.finished, m.created_ns, m.ready_ns, m.closed_ns, m.ordinal,
            m.name, m.create_thread, m.size, m.rank, m.device, m.color, m.key, m.parent_rank, m.create_result,
            m.async_error, m.origin, m.state, m.identity_guessed, m.typical_ns, m.p2p_counted);
        pairs(a, m.sent);
        pairs(a, m.received);
    }
}

// Fields of PyTorch's dumps only.
template <typename A>
void flight_recorder(A& a, Process& p) {
    a.number(p.moment);
    a.number(p.source.written_ns);
    a.number(p.source.recorder_minor);
    for (Member& m : p.members) {
        a.number(m.last_enqueued);
        a.number(m.last_started);
        a.number(m.last_completed);
    }
}

template <typename A>
void exchanges(A& a, Process& p) {
    sized(a, p.exchanges, 6);
    for (Exchange& exchange : p.exchanges) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        all(exchange.row, exchange.sequence, exchange.sent, exchange.received);
        numbers(a, exchange.sent_to);
        numbers(a, exchange.received_from);
    }
}

template <typename A>
void threads(A& a, Process& p) {
    sized(a, p.threads, 12);
    for (ThreadState& t : p.threads) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        all(t.thread, t.call, t.last_call, t.entered_ns, t.last_call_ns, t.object, t.ticket, t.group, t.group_depth,
            t.launches, t.queries);
        numbers(a, t.spans);
    }
}

template <typename A>
void ending(A& a, Process& p) {
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    Ending& e = p.ending;
    all(e.seen_ns, e.asked_ns, e.left_ns, e.signal, e.sender, e.exit_status, e.halt, p.fatal_thread);
}

template <typename A>
void processors(A& a, Process& p) {
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    Processors& s = p.processors;
    all(s.online, s.allowed, s.quota_cent, s.load_cent[0], s.load_cent[1], s.load_cent[2], s.threads, s.run_ns,
        s.run_delay_ns);
}

template <typename A>
void positions(A& a, Process& p) {
    a.number(p.python_threads);
    sized(a, p.positions, 9);
    for (ThreadPosition& s : p.positions) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        all(s.thread, s.name, s.why_none, s.python, s.caller, s.native, s.held_gil);
        numbers(a, s.frames);
        numbers(a, s.libraries);
    }
}

template <typename A>
void stack_samples(A& a, Process& p) {
    StackSamples& s = p.stack_samples;
    sized(a, s.stacks, 4);
    column(a, s.stacks, &SampledStack::thread);
    column(a, s.stacks, &SampledStack::name);
    for (SampledStack& stack : s.stacks) {
        numbers(a, stack.frames);
        numbers(a, stack.libraries);
    }
    sized(a, s.samples, 3);
    column(a, s.samples, &StackSample::stack);
    rising(a, s.samples, &StackSample::step);
    rising(a, s.samples, &StackSample::at_ns);
}

template <typename A>
void marks(A& a, Process& p) {
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    const auto mark = [&](Mark& m) { all(m.name, m.step, m.at_ns, m.place); };
    mark(p.last_event);
    mark(p.last_error);
    mark(p.open_span);
    all(p.last_event.facts, p.last_error.message, p.open_span.facts);
    sized(a, p.metrics, 12);
    for (MetricRecord& m : p.metrics) {
        auto bits = std::bit_cast<uint64_t>(m.last_value);
        all(m.name, m.values, bits, m.last_step, m.bad_values, m.bad_from_start, m.bad_ever, m.first_bad_step);
        mark(m.bad_since);
        m.last_value = std::bit_cast<double>(bits);
    }
}

template <typename A>
void health(A& a, Process& p) {
    sized(a, p.health, 6);
    for (HealthReading& r : p.health) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        auto value = std::bit_cast<uint64_t>(r.value);
        auto first_value = std::bit_cast<uint64_t>(r.first_value);
        all(r.name, value, first_value, r.since_step, r.since_ns, r.at_ns);
        r.value = std::bit_cast<double>(value);
        r.first_value = std::bit_cast<double>(first_value);
    }
}

template <typename A>
void children(A& a, Process& p) {
    a.number(p.out_of_memory_kills);
    sized(a, p.children, 8);
    for (ChildProcess& c : p.children) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        all(c.pid, c.name, c.state, c.wait_channel, c.cpu_ns, c.ended_ns, c.wait_status);
        numbers(a, c.frames);
    }
}

template <typename A>
void signatures(A& a, std::vector<CallSignature>& list) {
    sized(a, list, 12);
    for (CallSignature& s : list) {
        const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
        all(s.count, s.row, s.graph, s.thread, s.site, s.words, s.agreed, s.peer, s.kind, s.datatype, s.reduction);
        uint8_t flags = static_cast<uint8_t>((s.captured ? 1 : 0) | (s.replayed ? 2 : 0) | (s.arguments_lost ? 4 : 0));
        a.number(flags);
        if constexpr (A::kReads) {
            s.captured = (flags & 1) != 0;
            s.replayed = (flags & 2) != 0;
            s.arguments_lost = (flags & 4) != 0;
        }
    }
}

template <typename A>
void runs(A& a, std::vector<Runs::Run>& list) {
    sized(a, list, 2);
    rising(a, list, &Runs::Run::first);
    rising(a, list, &Runs::Run::value);
}

// The parts of an entry that the history does not hold.
template <typename A>
void entries(A& a, Process& p) {
    sized(a, p.entries, 14);
    rising(a, p.entries, &Entry::place);
    if constexpr (A::kReads) {
        for (const Entry& entry : p.entries) {
            if (entry.place >= p.history.size()) {
                a.fail();
                p.entries.clear();
                return;
            }
        }
    }
    // Numbers of one kind of call rise by one; of which kind it is, the history knows.
    std::vector<uint64_t> newest(p.history.signatures.size(), 0);
    for (Entry& entry : p.entries) {
        a.delta(entry.sequence, newest[p.history.calls[entry.place]]);
    }
    column(a, p.entries, &Entry::stream);
    rising(a, p.entries, &Entry::entered_ns);
    near(a, p.entries, &Entry::returned_ns, &Entry::entered_ns);
    near(a, p.entries, &Entry::started_ns, &Entry::entered_ns);
    near(a, p.entries, &Entry::finished_ns, &Entry::entered_ns);
    rising(a, p.entries, &Entry::group);
    column(a, p.entries, &Entry::span);
    column(a, p.entries, &Entry::result);
    column(a, p.entries, &Entry::state);
    column(a, p.entries, &Entry::device);
    column(a, p.entries, &Entry::recorder_number);
    rising_numbers(a, p.tickets);
}

template <typename A>
void work(A& a, Process& p) {
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    StreamCoverage& s = p.streams_seen;
    all(s.recorded, s.overwritten, s.torn, s.launches, s.oldest_ns, s.sampled, s.cut);
    pairs(a, p.work_done);
    sized(a, p.work, 9);
    column(a, p.work, &StreamWork::stream);
    column(a, p.work, &StreamWork::object);
    column(a, p.work, &StreamWork::amount);
    rising(a, p.work, &StreamWork::entered_ns);
    column(a, p.work, &StreamWork::name);
    column(a, p.work, &StreamWork::call);
    column(a, p.work, &StreamWork::record);
    column(a, p.work, &StreamWork::kind);
    column(a, p.work, &StreamWork::satisfied);
}

template <typename A>
void channels(A& a, Process& p) {
    const auto all = [&](auto&... numbers) { (a.number(numbers), ...); };
    sized(a, p.channels, 7);
    for (ChannelWork& c : p.channels) {
        all(c.entry, c.steps, c.steps_done, c.peer, c.channel, c.role, c.state);
    }
    sized(a, p.channel_counts, 6);
    for (ChannelCounts& c : p.channel_counts) {
        all(c.entry, c.channels, c.started, c.finished, c.algorithm, c.protocol);
    }
}

template <typename A>
void arrivals(A& a, Process& p) {
    for (Member& m : p.members) {
        sized(a, m.arrivals, 10);
        rising(a, m.arrivals, &Arrival::sequence);
        column(a, m.arrivals, &Arrival::bytes);
        rising(a, m.arrivals, &Arrival::entered_ns);
        near(a, m.arrivals, &Arrival::started_ns, &Arrival::entered_ns);
        near(a, m.arrivals, &Arrival::ended_ns, &Arrival::entered_ns);
        rising(a, m.arrivals, &Arrival::waited_ns);
        rising(a, m.arrivals, &Arrival::step);
        column(a, m.arrivals, &Arrival::kind);
        rising(a, m.arrivals, &Arrival::held_ns);
        rising(a, m.arrivals, &Arrival::untimed);
    }
}

template <typename A>
void call_times(A& a, Process& p) {
    a.number(p.call_times_from_ns);
    sized(a, p.call_times, 4);
    column(a, p.call_times, &CallTimes::since_before);
    column(a, p.call_times, &CallTimes::started);
    column(a, p.call_times, &CallTimes::ended);
    column(a, p.call_times, &CallTimes::sequence);
}

template <typename A>
void step_streams(A& a, Process& p) {
    sized(a, p.step_streams, 5);
    column(a, p.step_streams, &StreamPiece::kernels);
    column(a, p.step_streams, &StreamPiece::row);
    column(a, p.step_streams, &StreamPiece::kind);
    column(a, p.step_streams, &StreamPiece::waits_for);
    column(a, p.step_streams, &StreamPiece::and_for);
}

template <typename A>
void steps(A& a, Process& p) {
    a.number(p.steps_by_period);
    sized(a, p.steps, 14);
    rising(a, p.steps, &StepProfile::begin_ns);
    near(a, p.steps, &StepProfile::end_ns, &StepProfile::begin_ns);
    for (auto member : {&StepProfile::sync_ns, &StepProfile::copy_ns, &StepProfile::memory_ns, &StepProfile::load_ns,
                        &StepProfile::nccl_ns, &StepProfile::gap_ns}) {
        column(a, p.steps, member);
    }
    column(a, p.steps, &StepProfile::memory_calls);
    column(a, p.steps, &StepProfile::launches);
    rising(a, p.steps, &StepProfile::first_call);
    rising(a, p.steps, &StepProfile::first_span);
    column(a, p.steps, &StepProfile::span_count);
    rising(a, p.steps, &StepProfile::step);
    sized(a, p.step_spans, 3);
    column(a, p.step_spans, &SpanTime::busy_ns);
    column(a, p.step_spans, &SpanTime::ended_ns);
    column(a, p.step_spans, &SpanTime::name);
}

}  // namespace titan::analyzer::digest
