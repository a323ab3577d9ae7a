// The fields of a digested process, each described once for writing and reading: `a` is a format::Packer or an
// format::Unpacker. Lists are written by column, numbers that rise as differences: zstd then finds the steps of the
// program in them. Tags are on disk (FORMAT.md, section 9): a changed field gets a new tag.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/container/columns.h"
#include "formats/container/packed.h"
#include "run.h"

namespace titan::analyzer::digest {

using format::Near;
using format::Rising;

template <typename A, typename T>
size_t sized(A& a, std::vector<T>& list, size_t least_bytes_each) {
    const size_t count = a.count(list.size(), least_bytes_each);
    if constexpr (A::kReads) {
        list.resize(count);
    }
    return count;
}

// Numbers, texts, marks, pairs, and lists of them, one after the other.
template <typename A, typename... T>
void all(A& a, T&... values);

template <typename A, typename T>
void one(A& a, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
        a.text(value);
    } else if constexpr (std::is_same_v<T, double>) {
        auto bits = std::bit_cast<uint64_t>(value);
        a.number(bits);
        value = std::bit_cast<double>(bits);
    } else if constexpr (std::is_same_v<T, Mark>) {
        all(a, value.name, value.step, value.at_ns, value.place);
    } else if constexpr (requires { value.first; }) {
        all(a, value.first, value.second);
    } else if constexpr (requires { value.push_back({}); }) {
        sized(
            a, value, requires { value[0].first; } ? 2 : 1);
        std::for_each(value.begin(), value.end(), [&a](auto& each) { one(a, each); });
    } else {
        a.number(value);
    }
}

template <typename A, typename... T>
void all(A& a, T&... values) {
    (one(a, values), ...);
}

// Row by row.
template <typename A, typename T, typename... Members>
void rows(A& a, std::vector<T>& list, Members... members) {
    sized(a, list, sizeof...(members));
    for (T& row : list) {
        all(a, row.*members...);
    }
}

// `least_bytes`: of a row with all its columns, also those that follow.
template <typename A, typename T, typename... Columns>
void columns(A& a, std::vector<T>& list, size_t least_bytes, const Columns&... of) {
    sized(a, list, least_bytes);
    format::code_columns(a, list, of...);
}

template <typename A, typename T>
void rising_numbers(A& a, std::vector<T>& list) {
    sized(a, list, 1);
    uint64_t before = 0;
    for (T& number : list) {
        a.delta(number, before);
    }
}

template <typename A>
void head(A& a, Process& p) {
    std::string reason(format::name_of(p.source.reason));
    bool by_flight_recorder = !p.sees.host_calls;
    all(a, p.source.label, reason, p.source.detail, p.run, p.host, p.boot_id, p.source.is_ring,
        p.source.is_flight_recorder, p.condensed, p.source.dump_number, p.pid, p.pid_start_ticks, p.rank, p.world_size,
        p.attempt, p.liveness, p.fatal_signal, p.now_ns, p.started_ns, p.step, p.timeout_ns, p.gpu_progress,
        p.gpu_method, p.gpu_sample, p.starts_seen, p.partial_recording, by_flight_recorder, p.first_ticket,
        p.overwritten, p.torn, p.source.replaced_ns, p.starts_with_ends, p.callers);
    p.source.reason = reason_named(reason);
    p.sees = by_flight_recorder ? kFlightRecorderCoverage : Coverage();
    rows(a, p.passed_pairs, &PeerCalls::row, &PeerCalls::kind, &PeerCalls::peer, &PeerCalls::first, &PeerCalls::last);
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
void signatures(A& a, std::vector<CallSignature>& list) {
    sized(a, list, 12);
    for (CallSignature& s : list) {
        uint8_t flags = static_cast<uint8_t>((s.captured ? 1 : 0) | (s.replayed ? 2 : 0) | (s.arguments_lost ? 4 : 0));
        all(a, s.count, s.row, s.graph, s.thread, s.site, s.words, s.agreed, s.peer, s.kind, s.datatype, s.reduction,
            flags);
        if constexpr (A::kReads) {
            s.captured = (flags & 1) != 0;
            s.replayed = (flags & 2) != 0;
            s.arguments_lost = (flags & 4) != 0;
        }
    }
}

template <typename A>
void history(A& a, Process& p) {
    History& h = p.history;
    signatures(a, h.signatures);
    std::vector<uint32_t> calls(h.calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
        calls[i] = h.calls[i];
    }
    all(a, calls);
    std::vector<Runs::Run> steps = h.steps.list();
    std::vector<Runs::Run> replays = h.replays.list();
    columns(a, steps, 2, Rising{&Runs::Run::first}, Rising{&Runs::Run::value});
    columns(a, replays, 2, Rising{&Runs::Run::first}, Rising{&Runs::Run::value});
    rising_numbers(a, h.marks_ns);
    if constexpr (A::kReads) {
        const auto known = [&](uint32_t signature) { return signature < h.signatures.size(); };
        const size_t marks = (calls.size() + History::kMarkDistance - 1) / History::kMarkDistance;
        if (!std::all_of(calls.begin(), calls.end(), known) || h.marks_ns.size() != marks) {
            a.fail();
            return;
        }
        h.calls.assign(calls);
        const auto add = [&](const std::vector<Runs::Run>& list, Runs& runs) {
            for (size_t i = 0; i < list.size(); ++i) {
                if (i != 0 && list[i].first <= list[i - 1].first) {
                    a.fail();
                    return;
                }
                runs.add(list[i].first, list[i].value);
            }
        };
        add(steps, h.steps);
        add(replays, h.replays);
    }
}

template <typename A>
void call_logs(A& a, Process& p) {
    for (Member& m : p.members) {
        std::vector<uint64_t> sequences(m.call_log.size());
        std::vector<uint32_t> places(m.call_log.size());
        for (size_t i = 0; i < places.size(); ++i) {
            sequences[i] = m.call_log.sequence(i);
            places[i] = m.call_log.place(i);
        }
        rising_numbers(a, sequences);
        rising_numbers(a, places);
        if constexpr (A::kReads) {
            const auto inside = [&](uint32_t place) { return place < p.history.size(); };
            const bool rise =
                std::adjacent_find(sequences.begin(), sequences.end(), std::greater_equal<>()) == sequences.end();
            if (sequences.size() != places.size() || !rise || !std::all_of(places.begin(), places.end(), inside)) {
                a.fail();
                return;
            }
            m.call_log.assign(std::move(sequences), std::move(places), p.history);
        }
    }
}

// The parts of an entry that the history does not hold.
template <typename A>
void entries(A& a, Process& p) {
    columns(a, p.entries, 14, Rising{&Entry::place});
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
    format::code_columns(a, p.entries, &Entry::stream, Rising{&Entry::entered_ns},
                         Near{&Entry::returned_ns, &Entry::entered_ns}, Near{&Entry::started_ns, &Entry::entered_ns},
                         Near{&Entry::finished_ns, &Entry::entered_ns}, Rising{&Entry::group}, &Entry::span,
                         &Entry::result, &Entry::state, &Entry::device, &Entry::recorder_number,
                         &Entry::number_guessed);
    rising_numbers(a, p.tickets);
}

template <typename A>
void arrivals(A& a, Process& p) {
    for (Member& m : p.members) {
        columns(a, m.arrivals, 10, Rising{&Arrival::sequence}, &Arrival::bytes, Rising{&Arrival::entered_ns},
                Near{&Arrival::started_ns, &Arrival::entered_ns}, Near{&Arrival::ended_ns, &Arrival::entered_ns},
                Rising{&Arrival::waited_ns}, Rising{&Arrival::step}, &Arrival::kind, Rising{&Arrival::held_ns},
                Rising{&Arrival::untimed});
    }
}

template <typename A>
void steps(A& a, Process& p) {
    all(a, p.steps_by_period);
    columns(a, p.steps, 14, Rising{&StepProfile::begin_ns}, Near{&StepProfile::end_ns, &StepProfile::begin_ns},
            &StepProfile::sync_ns, &StepProfile::copy_ns, &StepProfile::memory_ns, &StepProfile::load_ns,
            &StepProfile::nccl_ns, &StepProfile::gap_ns, &StepProfile::memory_calls, &StepProfile::launches,
            Rising{&StepProfile::first_call}, Rising{&StepProfile::first_span}, &StepProfile::span_count,
            Rising{&StepProfile::step});
    columns(a, p.step_spans, 3, &SpanTime::busy_ns, &SpanTime::ended_ns, &SpanTime::name);
}

template <typename A>
void stack_samples(A& a, Process& p) {
    StackSamples& s = p.stack_samples;
    columns(a, s.stacks, 4, &SampledStack::thread, &SampledStack::name);
    for (SampledStack& stack : s.stacks) {
        all(a, stack.frames, stack.libraries);
    }
    columns(a, s.samples, 3, &StackSample::stack, Rising{&StackSample::step}, Rising{&StackSample::at_ns});
}

template <typename A>
void marks(A& a, Process& p) {
    for (Mark* const mark :
         {static_cast<Mark*>(&p.last_event), static_cast<Mark*>(&p.last_error), static_cast<Mark*>(&p.open_span)}) {
        all(a, *mark);
    }
    all(a, p.last_event.facts, p.last_error.message, p.open_span.facts);
    using M = MetricRecord;
    rows(a, p.metrics, &M::name, &M::values, &M::last_value, &M::last_step, &M::bad_values, &M::bad_from_start,
         &M::bad_ever, &M::first_bad_step, &M::bad_since);
}

// Calls visit(tag, describe) for every field, in an order in which each finds what it refers to.
template <typename A, typename Visit>
void each_field(Process& p, Visit&& visit) {
    visit(1, [&](A& a) { head(a, p); });
    visit(2, [&](A& a) { losses(a, p); });
    visit(3, [&](A& a) { all(a, p.texts); });
    visit(4, [&](A& a) {
        using M = Member;
        rows(a, p.members, &M::id, &M::parent_id, &M::alias_id, &M::issued, &M::finished, &M::created_ns, &M::ready_ns,
             &M::closed_ns, &M::ordinal, &M::name, &M::create_thread, &M::size, &M::rank, &M::device, &M::color,
             &M::key, &M::parent_rank, &M::create_result, &M::async_error, &M::origin, &M::state, &M::identity_guessed,
             &M::typical_ns, &M::returning_ns, &M::p2p_counted, &M::sent, &M::received);
    });
    visit(5, [&](A& a) {
        using T = ThreadState;
        rows(a, p.threads, &T::thread, &T::call, &T::last_call, &T::entered_ns, &T::last_call_ns, &T::object,
             &T::ticket, &T::group, &T::group_depth, &T::launches, &T::queries, &T::spans);
    });
    visit(6, [&](A& a) { history(a, p); });
    visit(7, [&](A& a) { call_logs(a, p); });
    visit(8, [&](A& a) { entries(a, p); });
    visit(9, [&](A& a) {
        rows(a, p.exchanges, &Exchange::row, &Exchange::sequence, &Exchange::sent, &Exchange::received,
             &Exchange::sent_to, &Exchange::received_from);
    });
    visit(10, [&](A& a) {
        StreamCoverage& s = p.streams_seen;
        all(a, s.recorded, s.overwritten, s.torn, s.launches, s.oldest_ns, s.sampled, s.cut, p.work_done);
        using W = StreamWork;
        columns(a, p.work, 9, &W::stream, &W::object, &W::amount, Rising{&W::entered_ns}, &W::name, &W::call,
                &W::record, &W::kind, &W::satisfied);
    });
    visit(11, [&](A& a) {
        rows(a, p.channels, &ChannelWork::entry, &ChannelWork::steps, &ChannelWork::steps_done, &ChannelWork::peer,
             &ChannelWork::channel, &ChannelWork::role, &ChannelWork::state);
        using C = ChannelCounts;
        rows(a, p.channel_counts, &C::entry, &C::channels, &C::started, &C::finished, &C::algorithm, &C::protocol);
    });
    visit(12, [&](A& a) { arrivals(a, p); });
    visit(13, [&](A& a) { steps(a, p); });
    visit(14, [&](A& a) {
        all(a, p.call_times_from_ns);
        columns(a, p.call_times, 4, &CallTimes::since_before, &CallTimes::started, &CallTimes::ended,
                &CallTimes::sequence);
    });
    visit(26, [&](A& a) {
        columns(a, p.step_streams, 5, &StreamPiece::kernels, &StreamPiece::row, &StreamPiece::kind,
                &StreamPiece::waits_for, &StreamPiece::and_for);
    });
    visit(27, [&](A& a) {
        all(a, p.observing.budget, p.observing.full_of, p.observing.light_of, p.observing.unit_launches,
            p.observing.unit_ns);
    });
    visit(15, [&](A& a) { all(a, p.labels); });
    visit(16, [&](A& a) {
        using T = ThreadPosition;
        all(a, p.python_threads);
        rows(a, p.positions, &T::thread, &T::name, &T::why_none, &T::python, &T::caller, &T::native, &T::held_gil,
             &T::frames, &T::libraries);
    });
    visit(17, [&](A& a) { stack_samples(a, p); });
    visit(18, [&](A& a) {
        Ending& e = p.ending;
        all(a, e.seen_ns, e.asked_ns, e.left_ns, e.signal, e.sender, e.exit_status, e.halt, p.fatal_thread);
    });
    visit(19, [&](A& a) {
        Processors& s = p.processors;
        all(a, s.online, s.allowed, s.quota_cent, s.load_cent[0], s.load_cent[1], s.load_cent[2], s.threads, s.run_ns,
            s.run_delay_ns);
    });
    visit(20, [&](A& a) {
        using C = ChildProcess;
        all(a, p.out_of_memory_kills);
        rows(a, p.children, &C::pid, &C::name, &C::state, &C::wait_channel, &C::cpu_ns, &C::ended_ns, &C::wait_status,
             &C::frames);
    });
    visit(21, [&](A& a) { all(a, p.unrecorded); });
    visit(22, [&](A& a) {
        all(a, p.moment, p.source.written_ns, p.source.recorder_minor);
        for (Member& m : p.members) {
            all(a, m.last_enqueued, m.last_started, m.last_completed);
        }
    });
    visit(23, [&](A& a) { all(a, p.config); });
    visit(24, [&](A& a) { marks(a, p); });
    visit(25, [&](A& a) {
        using R = HealthReading;
        rows(a, p.health, &R::name, &R::value, &R::first_value, &R::since_step, &R::since_ns, &R::at_ns);
    });
}

}  // namespace titan::analyzer::digest
