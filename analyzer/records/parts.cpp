#include "parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <vector>

#include "bandwidth.h"
#include "base/hash.h"
#include "call_order.h"
#include "call_period.h"
#include "host/words.h"
#include "robust.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

using format::CollectiveEntry;
using format::MarkerEntry;
using format::MarkerKind;

const Communicator* communicator_at(const Run& run, std::optional<uint32_t> index) {
    return index && *index < run.communicators.size() ? &run.communicators[*index] : nullptr;
}

// Equal of calls that are. Buffers and streams may take turns.
uint64_t shape_of(uint64_t communicator_id, const Entry& entry) {
    uint64_t shape = communicator_id;
    for (const uint64_t part : {entry.count, static_cast<uint64_t>(entry.kind), static_cast<uint64_t>(entry.datatype),
                                static_cast<uint64_t>(static_cast<uint32_t>(entry.peer))}) {
        shape = mix_hash(shape, part);
    }
    return shape;
}

constexpr double kClearlyBehind = 0.05;  // share of a step: less behind its calls is chance
// Steps that wait to be told until the ends of calls are known: more of them come from a journal, which has no ends.
constexpr size_t kMostHeld = 65'536;

std::string period_name(size_t calls) { return "period of " + counted(calls, "call"); }

// A call of either recorder; times in nanoseconds of one clock.
struct Call {
    OpKind kind{};
    const Communicator* communicator = nullptr;
    uint64_t bytes = 0;
    bool on_gpu = false;
    int64_t step = -1;
    int64_t begin_ns = 0;
    std::optional<double> took_ns;
    uint64_t calls = 1;  // as in Part
    uint64_t timed_calls = 1;
    double longest_ns = 0;
};

// A step as its host saw it. `step`, `in_steps`: as in Part.
struct HostStep {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int64_t step = -1;
    bool in_steps = false;
};

// From the end of the last call of one step on the GPU to that of the next one; `length_ns` 0: unknown.
struct GpuStep {
    double begin_ns = 0;
    double length_ns = 0;
};

class PartReader {
  public:
    PartReader(const Run& run, const std::string& role, const WantedSteps& wanted,
               const std::function<void(const Part&)>& visit)
        : run_(run), role_(role), wanted_(wanted), visit_(visit) {}

    void marker(const MarkerRecord& record) {
        const MarkerEntry& raw = record.raw;
        if (raw.kind == MarkerKind::kStep) {
            begin_step(static_cast<int64_t>(raw.value), raw.ticks, record.of);
        } else if (raw.kind == MarkerKind::kSpanEnd && raw.value != 0 && raw.value <= raw.ticks &&
                   is_wanted(raw.step)) {
            add_time(PartKind::kSpan, record.of.text(raw.name), raw.step, raw.value, raw.ticks, record.of);
        } else if (raw.kind == MarkerKind::kMetric && is_wanted(raw.step)) {
            tell({PartKind::kMetric, record.of.text(raw.name), record.of.realtime_ns(raw.ticks),
                  std::bit_cast<double>(raw.value)},
                 raw.step);
        }
    }

    void collective(const CollectiveRecord& record) {
        const CollectiveEntry& raw = record.raw;
        if (!format::counts_in_steps(raw) || record.ticket < summed_until_) {
            return;
        }
        const bool on_gpu = raw.gpu_started_ticks != 0 || raw.gpu_finished_ticks != 0;
        if (!is_wanted(raw.step) || (on_gpu ? raw.gpu_finished_ticks == 0 : raw.returned_ticks == 0)) {
            return;  // still under way
        }
        const uint64_t from_ticks = on_gpu ? raw.gpu_started_ticks : raw.entered_ticks;
        const uint64_t to_ticks = on_gpu ? raw.gpu_finished_ticks : raw.returned_ticks;
        Call call;
        call.kind = raw.kind;
        call.communicator = communicator_of(raw.communicator_id);
        call.bytes = bytes_of(record);
        call.on_gpu = on_gpu;
        call.step = raw.step;
        call.begin_ns = record.of.realtime_ns(raw.entered_ticks);
        if (raw.gpu_finished_ticks != 0) {
            ends_.emplace_back(call.begin_ns, record.of.realtime_ns(raw.gpu_finished_ticks));
        }
        if (from_ticks != 0 && from_ticks < to_ticks) {
            call.took_ns = static_cast<double>(record.of.image().clock().span_ns(from_ticks, to_ticks));
        }
        add_call(call);
    }

    // How long calls took on the GPU where some were seen there, as one by one.
    void step_calls(const StepCallsRecord& record) {
        const format::StepCalls& raw = record.raw;
        if (!is_wanted(raw.step)) {
            return;
        }
        const bool on_gpu = raw.timed_calls != 0;
        const uint64_t timed_calls = on_gpu ? std::min(raw.timed_calls, raw.calls) : raw.calls;
        const int64_t took_ns = record.of.span_ns(on_gpu ? raw.device_ticks : raw.host_ticks);
        Call call;
        call.kind = raw.kind;
        call.communicator = raw.communicator_id == 0 ? nullptr : kept(record.communicator);
        call.bytes = raw.bytes;
        call.on_gpu = on_gpu;
        call.step = raw.step;
        call.begin_ns = record.of.realtime_ns(raw.entered_ticks());
        call.took_ns = static_cast<double>(took_ns) / static_cast<double>(timed_calls);
        call.calls = raw.calls;
        call.timed_calls = timed_calls;
        call.longest_ns = static_cast<double>(record.of.span_ns(raw.longest_ticks));
        add_call(call);
    }
    void leave_out_calls_before(uint64_t ticket) { summed_until_ = ticket; }

    // PyTorch's recorder: how long calls took only where it timed them, no markers.
    void add_torch_calls(const ProcessRecords& records) {
        const Process decoded = records.decoded();
        const std::vector<Member>& rows = records.process().members;  // of the run: they know their communicators
        for (const Entry& entry : decoded.entries) {
            if (!format::moves_data(entry.kind) || entry.row >= rows.size()) {
                continue;
            }
            shapes_.push_back(shape_of(rows[entry.row].id, entry));
            entered_ns_.push_back(entry.entered_ns);
            if (wanted_.range || entry.device != DeviceState::kFinished) {
                continue;
            }
            Call call;
            call.kind = entry.kind;
            call.communicator = communicator_at(run_, rows[entry.row].communicator);
            const uint64_t size_bytes = format::datatype_size_bytes(entry.datatype);
            call.bytes = size_bytes != 0 && entry.count > INT64_MAX / size_bytes ? 0 : entry.count * size_bytes;
            call.on_gpu = true;
            call.begin_ns = entry.entered_ns;
            if (entry.started_ns != 0 && entry.started_ns < entry.finished_ns) {
                call.took_ns = static_cast<double>(entry.finished_ns - entry.started_ns);
            }
            add_call(call);
        }
    }

    // Steps that are not marked, as a replay has them.
    void add_periods(const Process& process) {
        const std::vector<StepProfile>& steps = process.steps;
        if (!process.steps_by_period || steps.size() < 2 || wanted_.range) {
            return;
        }
        std::vector<double> calls;
        std::vector<HostStep> periods;
        for (size_t i = 0; i < steps.size(); ++i) {
            periods.push_back({steps[i].begin_ns, steps[i].end_ns});
            if (i > 0) {
                calls.push_back(static_cast<double>(steps[i].first_call - steps[i - 1].first_call));
            }
        }
        const std::string name = period_name(static_cast<size_t>(median_of(std::move(calls))));
        const std::vector<GpuStep> on_gpu = on_gpu_of(periods);
        for (size_t i = std::min(steps.size(), static_cast<size_t>(wanted_.skip)); i < steps.size(); ++i) {
            tell_step(name, periods[i], on_gpu.empty() ? nullptr : &on_gpu[i]);
        }
    }

    // Marked steps, once the ends of their calls on the GPU are known. A host that runs ahead marks the newest steps in
    // no time; steps before the first end that is on record are as the host marked them.
    void add_marked_steps() {
        const std::vector<GpuStep> on_gpu = on_gpu_of(marked_);
        const auto known =
            std::find_if(on_gpu.begin(), on_gpu.end(), [](const GpuStep& one) { return one.length_ns != 0; });
        // The first end that is on record is that of the step before.
        const size_t first =
            known == on_gpu.end() || !runs_ahead_ ? marked_.size() : static_cast<size_t>(known - on_gpu.begin()) - 1;
        for (size_t i = 0; i < marked_.size(); ++i) {
            if (i == first && i > 0) {
                // Its host waited for what it was ahead by: from its mark on, so that no time is lost between both.
                const auto begin_ns = static_cast<double>(marked_[i].begin_ns);
                const GpuStep between{begin_ns, std::max(0.0, known->begin_ns - begin_ns)};
                tell_step(kMarkedStep, marked_[i], &between);
            } else {
                tell_step(kMarkedStep, marked_[i], i < first ? nullptr : &on_gpu[i]);
            }
        }
        marked_.clear();
    }

    // Of PyTorch's recorder, which has no steps: what lies between two equal calls.
    void add_torch_periods() {
        const CallPeriod period = call_period(shapes_);
        const size_t calls = shapes_.size() - period.behind;
        size_t skipped = wanted_.range ? calls : wanted_.skip;
        for (size_t i = calls - period.covered; period.calls != 0 && i + period.calls < calls; i += period.calls) {
            if (skipped != 0) {
                --skipped;
            } else if (entered_ns_[i] <= entered_ns_[i + period.calls]) {
                tell({PartKind::kStep, period_name(period.calls), entered_ns_[i],
                      static_cast<double>(entered_ns_[i + period.calls] - entered_ns_[i])});
            }
        }
    }

  private:
    // When the GPU had ended the first and the last call of each step, 0 where that was not seen. `first_ns` has one
    // more: of what comes behind these steps.
    struct GpuEnds {
        std::vector<int64_t> first_ns;
        std::vector<int64_t> last_ns;
    };

    GpuEnds ends_in(const std::vector<HostStep>& steps) {
        GpuEnds ends{std::vector<int64_t>(steps.size() + 1, 0), std::vector<int64_t>(steps.size(), 0)};
        for (const auto& [entered_ns, end_ns] : ends_) {
            const auto after = std::upper_bound(steps.begin(), steps.end(), entered_ns,
                                                [](int64_t ns, const HostStep& step) { return ns < step.begin_ns; });
            if (after == steps.begin()) {
                continue;
            }
            const auto step = static_cast<size_t>(after - steps.begin()) - 1;
            const bool is_inside = entered_ns < steps[step].end_ns;
            int64_t& first_ns = ends.first_ns[is_inside || after != steps.end() ? step : step + 1];
            first_ns = first_ns == 0 ? end_ns : std::min(first_ns, end_ns);
            if (is_inside) {
                ends.last_ns[step] = std::max(ends.last_ns[step], end_ns);
                runs_ahead_ |= after != steps.end() && end_ns > after->end_ns;
            }
        }
        return ends;
    }

    // Of each step; the first whose end was seen has no end before it, and those behind the last are not over. A step
    // whose end was not seen takes its share of the time between its neighbours. Empty where fewer than two ends were
    // seen.
    std::vector<GpuStep> on_gpu_of(const std::vector<HostStep>& steps) {
        const GpuEnds ends = ends_in(steps);
        const std::vector<int64_t>& ended_ns = ends.last_ns;
        std::vector<GpuStep> on_gpu(steps.size());
        std::optional<size_t> before;
        bool any = false;
        for (size_t i = 0; i < steps.size(); ++i) {
            if (ended_ns[i] == 0 || (before && ended_ns[i] <= ended_ns[*before])) {
                continue;
            }
            for (size_t k = before.value_or(i) + 1; before && k <= i; ++k) {
                const double each_ns =
                    static_cast<double>(ended_ns[i] - ended_ns[*before]) / static_cast<double>(i - *before);
                on_gpu[k] = {static_cast<double>(ended_ns[*before]) + each_ns * static_cast<double>(k - *before - 1),
                             each_ns};
                any = true;
            }
            before = i;
        }
        if (any && on_gpu.back().length_ns != 0) {
            const double behind_ns = behind_last_ns(ends, steps);
            on_gpu.back().length_ns += behind_ns > kClearlyBehind * on_gpu.back().length_ns ? behind_ns : 0;
        }
        return any ? on_gpu : std::vector<GpuStep>();
    }

    // What comes behind the calls of the last step, as a checkpoint does: by how much longer than usual it takes from
    // their end on the GPU, which was seen, to that of the next step's first call, or else to its mark.
    static double behind_last_ns(const GpuEnds& ends, const std::vector<HostStep>& steps) {
        const bool by_mark = ends.first_ns.back() == 0;
        std::vector<double> behind_ns;
        for (size_t i = 0; i < steps.size(); ++i) {
            const int64_t next_ns = by_mark ? steps[i].end_ns : ends.first_ns[i + 1];
            if (ends.last_ns[i] != 0 && next_ns != 0) {
                const int64_t least_ns = by_mark ? ends.last_ns[i] : 0;  // the mark of a host that runs ahead is early
                behind_ns.push_back(static_cast<double>(std::max(next_ns, least_ns) - ends.last_ns[i]));
            }
        }
        return last_above_usual(std::move(behind_ns));
    }

    void tell_step(const std::string& name, const HostStep& step, const GpuStep* on_gpu) const {
        if (on_gpu == nullptr) {
            tell({PartKind::kStep, name, step.begin_ns, static_cast<double>(step.end_ns - step.begin_ns)}, step.step,
                 step.in_steps);
        } else if (on_gpu->length_ns != 0) {
            tell({PartKind::kStep, name, static_cast<int64_t>(on_gpu->begin_ns), on_gpu->length_ns}, step.step,
                 step.in_steps);
        }
    }

    void tell(Part part, int64_t step = -1, bool in_steps = false) const {
        part.role = role_;
        part.step = step;
        part.in_steps = in_steps;
        visit_(part);
    }

    void begin_step(int64_t number, uint64_t ticks, const ProcessRecords& of) {
        if (begun_ticks_ != 0 && ticks >= begun_ticks_ && is_wanted(step_)) {
            const int64_t begin_ns = of.realtime_ns(begun_ticks_);
            const int64_t took_ns = of.image().clock().span_ns(begun_ticks_, ticks);
            marked_.push_back(
                {begin_ns, begin_ns + std::max<int64_t>(took_ns, 0), step_, begun_ticks_ >= first_begun_ticks_});
            if (marked_.size() == kMostHeld) {
                add_marked_steps();
            }
        }
        if (begun_ticks_ == 0) {
            first_step_ = number;
            first_begun_ticks_ = ticks;
        }
        step_ = number;
        begun_ticks_ = ticks;
    }

    bool is_wanted(int64_t step) const {
        return (wanted_.skip == 0 || (begun_ticks_ != 0 && step >= first_step_ + static_cast<int64_t>(wanted_.skip))) &&
               wanted_.in_range(step);
    }

    void add_time(PartKind kind, const std::string& name, int64_t step, uint64_t from_ticks, uint64_t to_ticks,
                  const ProcessRecords& of) {
        const int64_t took_ns = of.image().clock().span_ns(from_ticks, to_ticks);
        tell({kind, name, of.realtime_ns(from_ticks), static_cast<double>(std::max<int64_t>(took_ns, 0))}, step,
             first_begun_ticks_ != 0 && from_ticks >= first_begun_ticks_);
    }

    void add_call(const Call& call) {
        const bool known = call.communicator != nullptr;
        const std::string role = known ? role_text(*call.communicator) : "an unknown communicator";
        Part part{call.on_gpu ? PartKind::kGpuCall : PartKind::kHostCall,
                  (call.kind == OpKind{} ? "others" : op_text(call.kind)) + " on " + role,
                  call.begin_ns,
                  call.took_ns,
                  call.bytes,
                  bus_bytes(call.kind, call.bytes, known ? call.communicator->size : 1)};
        part.op = call.kind;
        part.communicator = call.communicator;
        part.calls = call.calls;
        part.timed_calls = call.timed_calls;
        part.longest = call.longest_ns;
        tell(std::move(part), call.step, call.step >= 0);
    }

    const Communicator* communicator_of(uint64_t id) const {
        const auto known = journaled_.find(id);
        return known != journaled_.end() ? &known->second : communicator_at(run_, run_.find_communicator(id));
    }
    // As long as the parts: what the journal tells of one lives shorter.
    const Communicator* kept(const Communicator& communicator) {
        const auto index = run_.find_communicator(communicator.id);
        return index ? &run_.communicators[*index]
                     : &journaled_.try_emplace(communicator.id, communicator).first->second;
    }

    const Run& run_;
    const std::string& role_;
    const WantedSteps& wanted_;
    const std::function<void(const Part&)>& visit_;
    std::map<uint64_t, Communicator> journaled_;
    uint64_t summed_until_ = 0;  // calls before this ticket are told as sums
    int64_t first_step_ = 0;
    int64_t step_ = -1;
    uint64_t first_begun_ticks_ = 0;                 // of the first step, 0 none yet
    uint64_t begun_ticks_ = 0;                       // of the newest step, likewise
    std::vector<HostStep> marked_;                   // not told yet
    bool runs_ahead_ = false;                        // its host is a whole step ahead of the GPU
    std::vector<std::pair<int64_t, int64_t>> ends_;  // of calls: when the host made them, and their end on the GPU
    std::vector<uint64_t> shapes_;                   // of PyTorch's calls
    std::vector<int64_t> entered_ns_;                // likewise
};

}  // namespace

// Markers first: they tell which steps come first.
uint64_t visit_parts(const Run& run, const ProcessRecords& records, const WantedSteps& wanted,
                     const std::function<void(const Part&)>& visit) {
    PartReader reader(run, records.role(), wanted, visit);
    if (records.process().source.is_flight_recorder) {
        reader.add_torch_calls(records);
        reader.add_torch_periods();
        return 0;
    }
    const uint64_t overwritten =
        records
            .each(
                RecordKind::kMarker, [&](const MarkerRecord& one) { reader.marker(one); }, wanted.range)
            .overwritten;
    if (wanted.with_sums) {
        const auto add_sums = [&](const StepCallsRecord& sums) { reader.step_calls(sums); };
        reader.leave_out_calls_before(records.visit_summed_calls(taken_by(add_sums), wanted.range));
    }
    records.each(RecordKind::kCollective, [&](const CollectiveRecord& call) { reader.collective(call); });
    reader.add_marked_steps();
    reader.add_periods(records.process());
    return overwritten;
}

}  // namespace titan::analyzer
