// Input is checked so far that no index leads out of its list.
#include "pack_process.h"

#include <algorithm>

#include "base/clock.h"
#include "digest_fields.h"
#include "host/words.h"
#include "index_calls.h"

namespace titan::analyzer {
namespace {

using format::Packer;
using format::Unpacker;

template <typename A>
void history(A& a, Process& p) {
    History& h = p.history;
    digest::signatures(a, h.signatures);
    std::vector<uint32_t> calls(h.calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
        calls[i] = h.calls[i];
    }
    digest::numbers(a, calls);
    std::vector<Runs::Run> steps = h.steps.list();
    std::vector<Runs::Run> replays = h.replays.list();
    digest::runs(a, steps);
    digest::runs(a, replays);
    digest::rising_numbers(a, h.marks_ns);
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
        digest::rising_numbers(a, sequences);
        digest::rising_numbers(a, places);
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

// Calls visit(tag, describe) for every field, in an order in which each finds what it refers to.
template <typename A, typename Visit>
void each_field(Process& p, Visit&& visit) {
    using digest::Tag;
    visit(Tag::kHead, [&](A& a) { digest::head(a, p); });
    visit(Tag::kLosses, [&](A& a) { digest::losses(a, p); });
    visit(Tag::kTexts, [&](A& a) { digest::texts(a, p); });
    visit(Tag::kMembers, [&](A& a) { digest::members(a, p); });
    visit(Tag::kThreads, [&](A& a) { digest::threads(a, p); });
    visit(Tag::kHistory, [&](A& a) { history(a, p); });
    visit(Tag::kCallLogs, [&](A& a) { call_logs(a, p); });
    visit(Tag::kEntries, [&](A& a) { digest::entries(a, p); });
    visit(Tag::kExchanges, [&](A& a) { digest::exchanges(a, p); });
    visit(Tag::kWork, [&](A& a) { digest::work(a, p); });
    visit(Tag::kChannels, [&](A& a) { digest::channels(a, p); });
    visit(Tag::kArrivals, [&](A& a) { digest::arrivals(a, p); });
    visit(Tag::kSteps, [&](A& a) { digest::steps(a, p); });
    visit(Tag::kCallTimes, [&](A& a) { digest::call_times(a, p); });
    visit(Tag::kStepStreams, [&](A& a) { digest::step_streams(a, p); });
    visit(Tag::kObserving, [&](A& a) { digest::observing(a, p); });
    visit(Tag::kLabels, [&](A& a) { digest::pairs(a, p.labels); });
    visit(Tag::kPositions, [&](A& a) { digest::positions(a, p); });
    visit(Tag::kStackSamples, [&](A& a) { digest::stack_samples(a, p); });
    visit(Tag::kEnding, [&](A& a) { digest::ending(a, p); });
    visit(Tag::kProcessors, [&](A& a) { digest::processors(a, p); });
    visit(Tag::kChildren, [&](A& a) { digest::children(a, p); });
    visit(Tag::kUnrecorded, [&](A& a) { digest::unrecorded(a, p); });
    visit(Tag::kFlightRecorder, [&](A& a) { digest::flight_recorder(a, p); });
    visit(Tag::kConfig, [&](A& a) { digest::pairs(a, p.config); });
    visit(Tag::kMarks, [&](A& a) { digest::marks(a, p); });
    visit(Tag::kHealth, [&](A& a) { digest::health(a, p); });
}

// Restores the fields of a kept entry that the history holds: they are not written twice.
void complete_entries(Process& p) {
    for (Entry& entry : p.entries) {
        const CallSignature& signature = p.history[entry.place];
        entry.count = signature.count;
        entry.row = signature.row;
        entry.graph = signature.graph;
        entry.thread = signature.thread;
        entry.site = signature.site;
        entry.shape = signature.words;
        entry.agreed = signature.agreed;
        entry.peer = signature.peer;
        entry.kind = signature.kind;
        entry.datatype = signature.datatype;
        entry.reduction = signature.reduction;
        entry.captured = signature.captured;
        entry.arguments_lost = signature.arguments_lost;
        entry.step = p.history.steps.at(entry.place);
        entry.replay = static_cast<uint32_t>(p.history.replays.at(entry.place));
    }
}

template <typename T, typename Fits>
bool all(const std::vector<T>& list, Fits&& fits) {
    return std::all_of(list.begin(), list.end(), fits);
}

// The first index that leads nowhere, in words; empty if all are sound.
std::string unsound(const Process& p) {
    const auto row = [&](uint32_t index) { return index == kNoIndex || index < p.members.size(); };
    const auto work = [&](uint32_t index) { return index == kNoIndex || index < p.work.size(); };
    if (!all(p.history.signatures, [&](const CallSignature& signature) { return row(signature.row); })) {
        return "a call of a communicator that is missing";
    }
    if (!all(p.exchanges, [&](const Exchange& exchange) { return exchange.row < p.members.size(); })) {
        return "an exchange of a communicator that is missing";
    }
    if (!all(p.work, [&](const StreamWork& piece) { return work(piece.record); })) {
        return "an event wait whose record is missing";
    }
    const auto rises = [](const Entry& a, const Entry& b) { return a.place >= b.place; };
    if (std::adjacent_find(p.entries.begin(), p.entries.end(), rises) != p.entries.end()) {
        return "calls out of order";
    }
    if (!p.tickets.empty() &&
        (p.tickets.size() != p.entries.size() ||
         std::adjacent_find(p.tickets.begin(), p.tickets.end(), std::greater_equal<>()) != p.tickets.end())) {
        return "tickets that fit no calls";
    }
    if (!all(p.steps, [&](const StepProfile& step) {
            return step.first_span <= p.step_spans.size() && step.span_count <= p.step_spans.size() - step.first_span;
        })) {
        return "a step whose spans are missing";
    }
    if (p.call_times.size() > p.history.size()) {
        return "times of calls that are missing";
    }
    if (!all(p.step_streams, [&](const StreamPiece& piece) {
            return row(piece.row) && piece.waits_for <= p.step_streams.size() && piece.and_for <= p.step_streams.size();
        })) {
        return "work of streams that waits for what is missing";
    }
    const auto falls = [](const Arrival& a, const Arrival& b) { return a.sequence > b.sequence; };
    if (!all(p.members, [&](const Member& member) {
            return std::adjacent_find(member.arrivals.begin(), member.arrivals.end(), falls) == member.arrivals.end();
        })) {
        return "arrivals out of order";
    }
    return p.texts.empty() || !p.texts.front().empty() ? "no texts" : "";
}

void bound_numbers(Process& p) {
    p.rank = plausible_rank(p.rank);
    p.world_size = plausible_rank(p.world_size);
    const auto bound = [](int64_t most_ns, auto&... times) { ((times = std::clamp<int64_t>(times, 0, most_ns)), ...); };
    const auto moments = [&](auto&... times) { bound(kLatestNs, times...); };
    const auto lengths = [&](auto&... times) { bound(kLatestNs >> 16, times...); };  // they are added up
    moments(p.call_times_from_ns, p.now_ns, p.started_ns, p.streams_seen.oldest_ns, p.source.written_ns,
            p.ending.seen_ns, p.ending.asked_ns, p.ending.left_ns, p.last_event.at_ns, p.last_error.at_ns,
            p.open_span.at_ns);
    for (ChildProcess& child : p.children) {
        moments(child.ended_ns);
    }
    for (MetricRecord& metric : p.metrics) {
        moments(metric.bad_since.at_ns);
    }
    for (HealthReading& reading : p.health) {
        moments(reading.since_ns, reading.at_ns);
        reading.value = plausible_reading(reading.value);
        reading.first_value = plausible_reading(reading.first_value);
    }
    for (int64_t& mark_ns : p.history.marks_ns) {
        moments(mark_ns);
    }
    for (Entry& entry : p.entries) {
        moments(entry.entered_ns, entry.returned_ns, entry.started_ns, entry.finished_ns);
    }
    for (StreamWork& work : p.work) {
        moments(work.entered_ns);
    }
    for (ThreadState& thread : p.threads) {
        moments(thread.entered_ns, thread.last_call_ns);
    }
    for (Member& member : p.members) {
        moments(member.created_ns, member.ready_ns, member.closed_ns);
        lengths(member.typical_ns);
        for (Arrival& arrival : member.arrivals) {
            moments(arrival.entered_ns, arrival.started_ns, arrival.ended_ns, arrival.waited_ns, arrival.held_ns);
        }
    }
    for (StepProfile& step : p.steps) {
        moments(step.begin_ns, step.end_ns);
        lengths(step.sync_ns, step.copy_ns, step.memory_ns, step.load_ns, step.nccl_ns, step.gap_ns);
    }
    for (SpanTime& span : p.step_spans) {
        lengths(span.busy_ns, span.ended_ns);
    }
}

void make_printable(Process& p) {
    for (std::string* text : {&p.source.label, &p.source.detail, &p.run, &p.host, &p.boot_id}) {
        *text = printable(*text);
    }
    for (std::vector<std::string>* list : {&p.texts, &p.unrecorded}) {
        for (std::string& text : *list) {
            text = printable(text);
        }
    }
}

}  // namespace

std::vector<std::byte> pack_process(const Process& process) {
    Process p = process;  // the one description of a process takes what it can read into
    Packer packer;
    each_field<Packer>(p,
                       [&](digest::Tag tag, auto&& describe) { packer.field(static_cast<uint64_t>(tag), describe); });
    return packer.bytes();
}

Result<Process> unpack_process(std::span<const std::byte> bytes) {
    std::vector<std::pair<uint64_t, Unpacker>> found;
    Unpacker all_fields(bytes);
    uint64_t tag = 0;
    for (Unpacker content(bytes); all_fields.next_field(tag, content);) {
        found.emplace_back(tag, content);
    }
    Process p;
    std::string why = all_fields.good() ? "" : "cut off";
    each_field<Unpacker>(p, [&](digest::Tag wanted, auto&& describe) {
        const auto field = std::find_if(found.begin(), found.end(), [&](const auto& candidate) {
            return candidate.first == static_cast<uint64_t>(wanted);
        });
        if (field == found.end() || !why.empty()) {
            return;
        }
        describe(field->second);
        if (!field->second.good()) {
            why = "field " + std::to_string(static_cast<uint64_t>(wanted)) + " makes no sense";
        }
    });
    why = why.empty() ? unsound(p) : why;
    if (!why.empty()) {
        return Error(why + ": the file is damaged");
    }
    complete_entries(p);
    bound_numbers(p);
    make_printable(p);
    index_entries(p);
    return p;
}

}  // namespace titan::analyzer
