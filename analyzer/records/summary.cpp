#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "bandwidth.h"
#include "call_order.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

using format::CollectiveEntry;
using format::MarkerEntry;
using format::MarkerKind;

constexpr size_t kMostNames = 10'000;  // programs may make names up as they go

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

}  // namespace

int SummaryRow::slowest_rank() const {
    const auto slowest = std::max_element(of_rank.begin(), of_rank.end(), [](const auto& a, const auto& b) {
        return a.second.mean_ns() < b.second.mean_ns();
    });
    return of_rank.size() < 2 ? -1 : slowest->first;
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
        }
    }

    void collective(const CollectiveRecord& record) override {
        const CollectiveEntry& raw = record.raw;
        if (!format::moves_data(raw.kind) || (raw.flags & format::kCaptured) != 0 || !is_wanted(raw.step)) {
            return;
        }
        const bool on_gpu = raw.gpu_started_ticks != 0 && raw.gpu_finished_ticks > raw.gpu_started_ticks;
        if (!on_gpu && (raw.gpu_started_ticks != 0 || raw.returned_ticks == 0)) {
            return;  // still under way
        }
        const format::RingClock& clock = record.of.image().clock();
        const int64_t took_ns = on_gpu ? clock.span_ns(raw.gpu_started_ticks, raw.gpu_finished_ticks)
                                       : clock.span_ns(raw.entered_ticks, raw.returned_ticks);
        SummaryRow* const row = add(on_gpu ? SummaryKind::kGpuCall : SummaryKind::kHostCall,
                                    op_text(raw.kind) + " on " + role_of(into_.run_, raw), took_ns);
        if (row != nullptr) {
            const auto index = into_.run_.find_communicator(raw.communicator_id);
            const int members = index ? into_.run_.communicators[*index].size : 1;
            row->bytes += bytes_of(record);
            row->bus_bytes += static_cast<uint64_t>(bus_bytes(raw.kind, bytes_of(record), members));
        }
    }

  private:
    void begin_step(int64_t number, uint64_t ticks, const ProcessRecords& of) {
        if (begun_ticks_ != 0 && ticks >= begun_ticks_ && is_wanted(step_)) {
            add(SummaryKind::kStep, "step", of.image().clock().span_ns(begun_ticks_, ticks));
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
            row->durations.add(took_ns);
            row->of_rank[rank_].add(took_ns);
        }
        return row;
    }

    Summary& into_;
    int rank_;
    int64_t first_step_ = 0;
    int64_t step_ = -1;
    uint64_t begun_ticks_ = 0;  // of the newest step, 0 none yet
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
    ++ranks_;
}

std::vector<const SummaryRow*> Summary::rows() const {
    std::vector<const SummaryRow*> rows;
    for (const auto& [key, row] : rows_) {
        rows.push_back(&row);
    }
    std::stable_sort(rows.begin(), rows.end(), [](const SummaryRow* a, const SummaryRow* b) {
        return std::tuple(a->kind, -a->durations.sum_ns()) < std::tuple(b->kind, -b->durations.sum_ns());
    });
    return rows;
}

std::optional<double> Summary::share_of_steps(const SummaryRow& row) const {
    const auto steps = rows_.find({SummaryKind::kStep, "step"});
    if (steps == rows_.end()) {
        return std::nullopt;
    }
    double steps_ns = 0;
    for (const auto& [rank, durations] : row.of_rank) {
        const auto own = steps->second.of_rank.find(rank);
        steps_ns += own == steps->second.of_rank.end() ? 0 : own->second.sum_ns();
    }
    return steps_ns > 0 ? std::optional(row.durations.sum_ns() / steps_ns) : std::nullopt;
}

}  // namespace titan::analyzer
