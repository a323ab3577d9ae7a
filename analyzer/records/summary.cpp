#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "bandwidth.h"
#include "call_order.h"
#include "call_period.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

using format::CollectiveEntry;
using format::MarkerEntry;
using format::MarkerKind;

constexpr size_t kMostNames = 10'000;  // programs may make names up as they go
constexpr const char* kSteps = "step";
// Labels by which a program tells what a step is worth.
constexpr std::string_view kTokensLabel = "tokens_per_step";
constexpr std::string_view kFlopsLabel = "flops_per_token";

// "dp" of "dp:3"; a communicator without a name by its size.
std::string role_of(const Run& run, const CollectiveEntry& call) {
    const auto index = run.find_communicator(call.communicator_id);
    if (!index) {
        return "an unknown communicator";
    }
    const Communicator& communicator = run.communicators[*index];
    const std::string_view role = role_in(communicator.name);
    return !role.empty()                ? std::string(role)
           : !communicator.name.empty() ? communicator.name
                                        : fmt::format("communicators of {} ranks", communicator.size);
}

// Equal of calls that are. Buffers and streams may take turns.
uint64_t shape_of(const CollectiveEntry& call) {
    uint64_t shape = 0xcbf29ce484222325;  // FNV-1a
    for (const uint64_t part :
         {call.communicator_id, call.count, static_cast<uint64_t>(call.kind), static_cast<uint64_t>(call.datatype),
          static_cast<uint64_t>(static_cast<uint32_t>(call.peer))}) {
        shape = (shape ^ part) * 0x100000001b3;
    }
    return shape;
}

// 0 where it is no number above 0.
double number_in(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && std::isfinite(number) && number > 0 ? number : 0;
}

bool has_lower_mean(const std::pair<const int, ValueSketch>& a, const std::pair<const int, ValueSketch>& b) {
    return a.second.mean() < b.second.mean();
}

}  // namespace

int SummaryRow::highest_rank() const {
    return of_rank.size() < 2 ? -1 : std::max_element(of_rank.begin(), of_rank.end(), has_lower_mean)->first;
}

int SummaryRow::lowest_rank() const {
    return of_rank.size() < 2 ? -1 : std::min_element(of_rank.begin(), of_rank.end(), has_lower_mean)->first;
}

// The records of one process.
class Summary::Reader : public RecordVisitor {
  public:
    Reader(Summary& into, const ProcessRecords& of) : into_(into), rank_(of.rank()) {}

    void marker(const MarkerRecord& record) override {
        const MarkerEntry& raw = record.raw;
        if (raw.kind == MarkerKind::kStep) {
            begin_step(static_cast<int64_t>(raw.value), raw.ticks, record.of);
        } else if (raw.kind == MarkerKind::kSpanEnd && raw.value != 0 && raw.value <= raw.ticks &&
                   is_wanted(raw.step)) {
            add(SummaryKind::kSpan, record.of.text(raw.name), record.of.image().clock().span_ns(raw.value, raw.ticks));
        } else if (raw.kind == MarkerKind::kMetric && is_wanted(raw.step)) {
            add_metric(record.of.text(raw.name), std::bit_cast<double>(raw.value));
        }
    }

    void label(const LabelRecord& record) override {
        WorkOfAStep& told = into_.told_;
        if (record.name == kTokensLabel) {
            told.tokens_per_step = std::max(told.tokens_per_step, number_in(record.text));
        } else if (record.name == kFlopsLabel) {
            told.flops_per_token = std::max(told.flops_per_token, number_in(record.text));
        }
    }

    void collective(const CollectiveRecord& record) override {
        const CollectiveEntry& raw = record.raw;
        if (!format::moves_data(raw.kind) || (raw.flags & format::kCaptured) != 0) {
            return;
        }
        if (begun_ticks_ == 0) {
            shapes_.push_back(shape_of(raw));
            entered_ticks_.push_back(raw.entered_ticks);
        }
        if (!is_wanted(raw.step)) {
            return;
        }
        const bool on_gpu = raw.gpu_started_ticks != 0 || raw.gpu_finished_ticks != 0;
        if (on_gpu ? raw.gpu_finished_ticks == 0 : raw.returned_ticks == 0) {
            return;  // still under way
        }
        SummaryRow* const row = into_.row_of(on_gpu ? SummaryKind::kGpuCall : SummaryKind::kHostCall,
                                             op_text(raw.kind) + " on " + role_of(into_.run_, raw));
        if (row == nullptr) {
            return;
        }
        const auto index = into_.run_.find_communicator(raw.communicator_id);
        const int members = index ? into_.run_.communicators[*index].size : 1;
        const uint64_t from_ticks = on_gpu ? raw.gpu_started_ticks : raw.entered_ticks;
        const uint64_t to_ticks = on_gpu ? raw.gpu_finished_ticks : raw.returned_ticks;
        ++row->calls;
        row->bytes += bytes_of(record);
        if (from_ticks != 0 && from_ticks < to_ticks) {
            add(*row, static_cast<double>(record.of.image().clock().span_ns(from_ticks, to_ticks)));
            row->timed_bus_bytes += static_cast<uint64_t>(bus_bytes(raw.kind, bytes_of(record), members));
        }
    }

    // Steps that are not marked: what lies between two equal calls.
    void add_periods(const format::RingClock& clock) {
        const CallPeriod period = call_period(shapes_);
        const size_t calls = shapes_.size();
        size_t skipped = into_.options_.steps ? calls : into_.options_.skip_steps;
        for (size_t i = calls - period.covered; period.calls != 0 && i + period.calls < calls; i += period.calls) {
            if (skipped != 0) {
                --skipped;
            } else if (entered_ticks_[i] <= entered_ticks_[i + period.calls]) {
                add(SummaryKind::kStep, fmt::format("period of {} calls", period.calls),
                    clock.span_ns(entered_ticks_[i], entered_ticks_[i + period.calls]));
            }
        }
    }

  private:
    void begin_step(int64_t number, uint64_t ticks, const ProcessRecords& of) {
        if (begun_ticks_ != 0 && ticks >= begun_ticks_ && is_wanted(step_)) {
            add(SummaryKind::kStep, kSteps, of.image().clock().span_ns(begun_ticks_, ticks));
        }
        first_step_ = begun_ticks_ == 0 ? number : first_step_;
        step_ = number;
        begun_ticks_ = ticks;
    }

    bool is_wanted(int64_t step) const {
        const SummaryOptions& options = into_.options_;
        return (options.skip_steps == 0 ||
                (begun_ticks_ != 0 && step >= first_step_ + static_cast<int64_t>(options.skip_steps))) &&
               (!options.steps || (step >= options.steps->first && step <= options.steps->second));
    }

    SummaryRow* add(SummaryKind kind, const std::string& name, int64_t took_ns) {
        SummaryRow* const row = into_.row_of(kind, name);
        if (row != nullptr) {
            add(*row, static_cast<double>(std::max<int64_t>(took_ns, 0)));
        }
        return row;
    }

    void add(SummaryRow& row, double value) const {
        row.values.add(value);
        row.of_rank[rank_].add(value);
    }

    void add_metric(const std::string& name, double value) {
        SummaryRow* const row = into_.row_of(SummaryKind::kMetric, name);
        if (row == nullptr) {
            return;
        }
        if (std::isfinite(value)) {
            add(*row, value);
        } else {
            ++row->not_finite;
        }
    }

    Summary& into_;
    int rank_;
    int64_t first_step_ = 0;
    int64_t step_ = -1;
    uint64_t begun_ticks_ = 0;                      // of the newest step, 0 none yet
    std::vector<uint64_t> shapes_, entered_ticks_;  // of calls without a step
};

SummaryRow* Summary::row_of(SummaryKind kind, const std::string& name) {
    const auto known = rows_.find({kind, name});
    if (known != rows_.end()) {
        return &known->second;
    }
    if (rows_.size() >= kMostNames) {
        ++names_left_out_;
        return nullptr;
    }
    SummaryRow& row = rows_[{kind, name}];
    row.kind = kind;
    row.name = name;
    return &row;
}

// Markers first: they tell which steps come first.
void Summary::add(const ProcessRecords& records) {
    Reader reader(*this, records);
    overwritten_markers_ += records.visit(RecordKind::kMarker, reader).overwritten;
    records.visit(RecordKind::kCollective, reader);
    records.visit(RecordKind::kLabel, reader);
    reader.add_periods(records.image().clock());
    ++ranks_;
    const double peak_tflops = peak_tflops_of(records.machine("gpus"));
    told_.peak_tflops += peak_tflops;
    ranks_with_peak_ += peak_tflops > 0 ? 1 : 0;
}

std::vector<const SummaryRow*> Summary::rows() const {
    std::vector<const SummaryRow*> rows;
    for (const auto& [key, row] : rows_) {
        rows.push_back(&row);
    }
    std::stable_sort(rows.begin(), rows.end(), [](const SummaryRow* a, const SummaryRow* b) {
        const bool by_name = a->kind == SummaryKind::kMetric;  // their sums say nothing
        return std::tuple(a->kind, by_name ? 0 : -a->values.sum()) <
               std::tuple(b->kind, by_name ? 0 : -b->values.sum());
    });
    return rows;
}

std::optional<double> Summary::share_of_steps(const SummaryRow& row) const {
    const auto steps = rows_.find({SummaryKind::kStep, kSteps});
    if (steps == rows_.end() || row.kind == SummaryKind::kMetric) {
        return std::nullopt;
    }
    double steps_ns = 0;
    for (const auto& [rank, durations] : row.of_rank) {
        const auto own = steps->second.of_rank.find(rank);
        steps_ns += own == steps->second.of_rank.end() ? 0 : own->second.sum();
    }
    return steps_ns > 0 ? std::optional(row.values.sum() / steps_ns) : std::nullopt;
}

// Of all steps: where some are marked, of these.
std::optional<Throughput> Summary::throughput() const {
    double sum_ns = 0;
    uint64_t steps = 0;
    const bool marked = rows_.contains({SummaryKind::kStep, kSteps});
    for (const auto& [key, row] : rows_) {
        if (row.kind == SummaryKind::kStep && (row.name == kSteps) == marked) {
            sum_ns += row.values.sum();
            steps += row.values.count();
        }
    }
    if (sum_ns <= 0) {
        return std::nullopt;
    }
    WorkOfAStep work = options_.work;
    const auto take = [](double& value, double told) { value = value > 0 ? value : told; };
    take(work.tokens_per_step, told_.tokens_per_step);
    take(work.flops_per_token, told_.flops_per_token);
    take(work.peak_tflops, ranks_with_peak_ != 0 ? told_.peak_tflops / static_cast<double>(ranks_with_peak_) : 0);
    const int ranks = run_.world_size > 0 ? run_.world_size : static_cast<int>(ranks_);
    return throughput_of(work, sum_ns / static_cast<double>(steps), ranks);
}

}  // namespace titan::analyzer
