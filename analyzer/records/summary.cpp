#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <tuple>

#include "layout.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr double kMostBytes = 1e18;    // damaged records claim any number
constexpr size_t kMostNames = 10'000;  // programs may make names up as they go
// Labels by which a program tells what a step is worth.
constexpr std::string_view kTokensLabel = "tokens_per_step";
constexpr std::string_view kFlopsLabel = "flops_per_token";

// 0 where it is no number above 0.
double number_in(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && std::isfinite(number) && number > 0 ? number : 0;
}

// The next power of two; no more than one that 64 bits hold.
uint64_t size_class_bytes(uint64_t bytes) {
    return bytes > uint64_t{1} << 62 ? uint64_t{1} << 63 : std::bit_ceil(bytes);
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

SummaryRow* Summary::row_of(const Part& part, uint64_t up_to_bytes) {
    const Key key{part.kind, part.full_name(), up_to_bytes};
    const auto known = rows_.find(key);
    if (known != rows_.end()) {
        return &known->second;
    }
    if (rows_.size() >= kMostNames) {
        ++names_left_out_;
        return nullptr;
    }
    SummaryRow& row = rows_[key];
    row.kind = part.kind;
    row.name = std::get<std::string>(key);
    row.role = part.role;
    row.up_to_bytes = up_to_bytes;
    return &row;
}

void Summary::add(const Part& part, int rank) {
    add_to(row_of(part, 0), part, rank);
    if (options_.by_size && part.is_call()) {
        add_to(row_of(part, size_class_bytes(part.bytes / part.calls)), part, rank);
    }
}

// As the part of a role of its own, or of its own communicator.
Part Summary::grouped(const Part& part, const Process& process) const {
    Part own = part;
    if (options_.by == SummaryBy::kCommunicator) {
        const auto index = part.communicator == nullptr ? std::nullopt : run_.find_communicator(part.communicator->id);
        if (index) {
            own.name = op_text(part.op) + " on " + distinct_text(run_, *index);
        } else if (part.communicator != nullptr) {
            own.name = op_text(part.op) + " on " + communicator_name(*part.communicator);
        }
        return own;
    }
    const std::string group = options_.by == SummaryBy::kRank ? fmt::format("rank {}", process.rank)
                              : process.host.empty()          ? std::string("unknown host")
                                                              : process.host;
    own.role = part.role.empty() ? group : part.role + ", " + group;
    return own;
}

void Summary::add_to(SummaryRow* row, const Part& part, int rank) {
    if (row == nullptr) {
        return;
    }
    row->calls += part.is_call() ? part.calls : 0;
    row->bytes += part.bytes;
    if (!part.value) {
        return;
    }
    if (!std::isfinite(*part.value)) {
        ++row->not_finite;
        return;
    }
    const double longest = std::max(*part.value, part.longest);
    const auto timed_calls = static_cast<double>(part.timed_calls);
    row->values.add(*part.value, part.timed_calls, longest);
    row->of_rank[rank].add(*part.value, part.timed_calls, longest);
    row->in_steps_ns += part.in_steps ? *part.value * timed_calls : 0;
    const double timed_bus_bytes = part.bus_bytes * timed_calls / static_cast<double>(part.calls);
    row->timed_bus_bytes += static_cast<uint64_t>(std::min(timed_bus_bytes, kMostBytes));
    row->summed_calls += part.calls > 1 ? part.timed_calls : 0;
    summed_calls_ += part.calls > 1 && row->up_to_bytes == 0 ? part.timed_calls : 0;
}

void Summary::add(const ProcessRecords& records) {
    const bool groups = options_.by != SummaryBy::kRole;
    WantedSteps wanted = options_.steps;
    wanted.with_sums = true;
    overwritten_markers_ += visit_parts(run_, records, wanted, [&](const Part& part) {
        add(groups ? grouped(part, records.process()) : part, records.rank());
    });
    records.each(RecordKind::kLabel, [this](const LabelRecord& record) {
        double* const told = record.name == kTokensLabel  ? &told_.tokens_per_step
                             : record.name == kFlopsLabel ? &told_.flops_per_token
                                                          : nullptr;
        if (told != nullptr) {
            *told = std::max(*told, number_in(record.text));
        }
    });
    ++ranks_;
    has_journal_ |= records.has_journal();
    ++ranks_of_role_[records.role()];
    flight_recorder_ranks_ += records.process().source.is_flight_recorder ? 1 : 0;
    const double peak_tflops = peak_tflops_of(records.machine("gpus"));
    told_.peak_tflops += peak_tflops;
    ranks_with_peak_ += peak_tflops > 0 ? 1 : 0;
}

std::vector<const SummaryRow*> Summary::rows() const {
    std::vector<const SummaryRow*> rows;
    for (const auto& [key, row] : rows_) {
        if (row.up_to_bytes == 0) {
            rows.push_back(&row);
        }
    }
    std::stable_sort(rows.begin(), rows.end(), [](const SummaryRow* a, const SummaryRow* b) {
        const bool by_name = a->kind == PartKind::kMetric;  // their sums say nothing
        return std::tuple(a->kind, by_name ? 0 : -a->values.sum()) <
               std::tuple(b->kind, by_name ? 0 : -b->values.sum());
    });
    return rows;
}

std::vector<const SummaryRow*> Summary::rows_by_size() const {
    std::vector<const SummaryRow*> rows;
    for (const auto& [key, row] : rows_) {
        if (row.up_to_bytes != 0) {
            rows.push_back(&row);
        }
    }
    return rows;
}

std::optional<double> Summary::share_of_steps(const SummaryRow& row) const {
    const auto steps = rows_.find({PartKind::kStep, in_role(row.role, kMarkedStep), 0});
    if (steps == rows_.end() || row.kind == PartKind::kMetric) {
        return std::nullopt;
    }
    double steps_ns = 0;
    for (const auto& [rank, durations] : row.of_rank) {
        const auto own = steps->second.of_rank.find(rank);
        steps_ns += own == steps->second.of_rank.end() ? 0 : own->second.sum();
    }
    const bool is_outside = row.in_steps_ns <= 0 && row.values.sum() > 0;
    return steps_ns > 0 && !is_outside ? std::optional(row.in_steps_ns / steps_ns) : std::nullopt;
}

// Rows of ranks or hosts have roles of their own (grouped).
uint64_t Summary::ranks_beside(const SummaryRow& row) const {
    const auto known = ranks_of_role_.find(row.role);
    return known == ranks_of_role_.end() ? ranks_ : known->second;
}

// Over all steps, or over the marked ones if some are. Roles have their own steps, and no common throughput; so have
// ranks whose calls repeat in periods of other lengths, as trainers and generators do that mark no steps.
std::optional<Throughput> Summary::throughput() const {
    constexpr double kAlike = 1.1;
    double sum_ns = 0, shortest_ns = HUGE_VAL, longest_ns = 0;
    uint64_t steps = 0;
    const bool marked = rows_.contains({PartKind::kStep, kMarkedStep, 0});
    for (const auto& [key, row] : rows_) {
        if (!row.role.empty()) {
            return std::nullopt;
        }
        if (row.kind == PartKind::kStep && (row.name == kMarkedStep) == marked) {
            sum_ns += row.values.sum();
            steps += row.values.count();
            shortest_ns = std::min(shortest_ns, row.values.mean());
            longest_ns = std::max(longest_ns, row.values.mean());
        }
    }
    if (sum_ns <= 0 || longest_ns > kAlike * shortest_ns) {
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

// --- throughput

namespace {

struct Peak {
    std::string_view model;
    double tflops;
};

// The first that fits.
constexpr auto kPeaks = std::to_array<Peak>({
    {"GB200", 2500},     {"B200", 2250},     {"GH200", 989.4}, {"H200 NVL", 835.5}, {"H200", 989.4},
    {"H100 NVL", 835.5}, {"H100 PCIe", 756}, {"H100", 989.4},  {"H800", 989.4},     {"H20", 148},
    {"A100", 312},       {"A800", 312},      {"A10G", 70},     {"A10", 125},        {"L40S", 362},
    {"L40", 181},        {"L4", 121},        {"V100", 125},    {"T4", 65},
});

bool is_part_of_word(std::string_view text, size_t place) {
    return place < text.size() && (std::isalnum(static_cast<unsigned char>(text[place])) != 0);
}

// "H100" in "8 x NVIDIA H100 80GB HBM3", not "L4" in "NVIDIA L40".
bool has_words(std::string_view text, std::string_view words) {
    const size_t place = text.find(words);
    return place != std::string_view::npos && !is_part_of_word(text, place + words.size()) &&
           (place == 0 || !is_part_of_word(text, place - 1));
}

}  // namespace

Throughput throughput_of(const WorkOfAStep& work, double step_ns, int ranks) {
    Throughput throughput;
    throughput.ranks = ranks;
    throughput.step_ns = step_ns;
    throughput.peak_tflops = work.peak_tflops;
    if (work.tokens_per_step > 0) {
        throughput.tokens_per_s = work.tokens_per_step * throughput.steps_per_s();
        if (work.flops_per_token > 0 && work.peak_tflops > 0) {
            throughput.mfu = *throughput.tokens_per_s * work.flops_per_token / (work.peak_tflops * 1e12 * ranks);
        }
    }
    return throughput;
}

double peak_tflops_of(std::string_view gpus) {
    const auto* peak =
        std::find_if(kPeaks.begin(), kPeaks.end(), [gpus](const Peak& row) { return has_words(gpus, row.model); });
    return peak == kPeaks.end() ? 0 : peak->tflops;
}

}  // namespace titan::analyzer
