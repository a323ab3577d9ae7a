// Finds the slow part of a rank's step: how its host spends the steps it is late in, against ranks that do the same
// work.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/words.h"
#include "robust.h"
#include "same_work.h"
#include "timing.h"

namespace titan::analyzer {
namespace {

constexpr double kLeastShareNamed = 0.3;  // least share of the cost for a part to be named
constexpr double kMoreLaunches = 0.2;
constexpr size_t kMaxPeers = 16;

// Medians over the steps that are looked at, against the median of the peers in the same step.
struct Against {
    double excess = 0;
    double own = 0;
    double peers = 0;
};

using Values = std::map<std::string, double>;

// No parts of the step's time, and not always on record.
constexpr const char* kGap = "gap";
constexpr const char* kLaunches = "launches";

bool is_part(const std::string& name) { return name != kGap && name != kLaunches; }

Values parts_of(const Process& process, const StepProfile& step) {
    Values parts;
    parts["copies"] = static_cast<double>(step.copy_ns);
    parts["memory calls"] = static_cast<double>(step.memory_ns);
    parts["loading of code"] = static_cast<double>(step.load_ns);
    parts["synchronisation"] = static_cast<double>(step.sync_ns);
    parts["NCCL calls"] = static_cast<double>(step.nccl_ns);
    double busy_ns = static_cast<double>(step.length_ns() - step.copy_ns - step.memory_ns - step.load_ns -
                                         step.sync_ns - step.nccl_ns);
    for (uint32_t i = 0; i < step.span_count && step.first_span + i < process.step_spans.size(); ++i) {
        const SpanTime& span = process.step_spans[step.first_span + i];
        parts[std::string(kSpanPart) + process.text(span.name)] += static_cast<double>(span.busy_ns);
        busy_ns -= static_cast<double>(span.busy_ns);
    }
    parts["program code outside of spans"] = std::max(0.0, busy_ns);
    if (step.gap_ns != 0) {
        parts[kGap] = static_cast<double>(step.gap_ns);
    }
    if (step.launches != 0) {
        parts[kLaunches] = step.launches;
    }
    return parts;
}

bool is_program_code(const std::string& part) { return part.starts_with("span") || part.starts_with("program"); }

class SlowPart {
  public:
    SlowPart(const Run& run, const Timing& timing, RankTiming& rank, const std::vector<uint32_t>& roles)
        : axis_(timing.axes[rank.axis]), rank_(rank), process_(run.processes[rank.process]) {
        for (uint32_t p = 0; p < run.processes.size() && peers_.size() < kMaxPeers; ++p) {
            const bool late_too = std::any_of(timing.ranks.begin(), timing.ranks.end(), [&](const RankTiming& other) {
                return other.process == p && other.shape.pattern != LatePattern::kNone;
            });
            if (p != rank.process && roles[p] == roles[rank.process] && !late_too) {
                peers_.push_back(&run.processes[p]);
            }
        }
    }

    void find() {
        if (!process_.sees.host_calls) {
            rank_.why.emplace_back("whether its program or its GPU is slow is not recorded");
            return;
        }
        const double host_share = host_part();
        const std::map<std::string, Against> parts = axis_.steps ? compare() : std::map<std::string, Against>();
        const Against* worst = nullptr;
        std::string name;
        for (const auto& [part, ns] : parts) {
            if (is_part(part) && ns.excess >= kLeastShareNamed * rank_.shape.typical_ns &&
                (worst == nullptr || ns.excess > worst->excess)) {
                worst = &ns;
                name = part;
            }
        }
        if (worst != nullptr) {
            rank_.slow_part = name;
            rank_.why.push_back(fmt::format("{} {} {} in the steps in which it is late, {} with its {} (medians)", name,
                                            is_program_code(name) || name.starts_with("sync") ? "takes" : "take",
                                            time(worst->own), time(worst->peers), counted(peers_.size(), "peer")));
            if (is_program_code(name)) {
                explain_host(parts);
            }
            return;
        }
        if (rank_.by_device && host_share < 0.5) {
            rank_.slow_part = "its GPU: kernels or copies between the collectives";
            rank_.calls =
                "its program makes the calls in time, but its GPU comes to them late: what runs there before them is "
                "slow";
            return;
        }
        if (!parts.empty() && rank_.by_device) {
            rank_.slow_part = "blocked in a synchronisation";
            rank_.why.push_back(
                "its program is not busy for longer than its peers in any span, copy or allocation: it is blocked in a "
                "synchronisation while they wait in theirs");
            rank_.calls = "its program makes the calls late";
        } else if (rank_.by_device) {
            rank_.slow_part = "its program on the CPU";
            rank_.why.emplace_back("what its program does before the calls is not marked (no steps and spans)");
            rank_.calls = "its program makes the calls late";
        }
    }

  private:
    static std::string time(double ns) { return fine_duration_text(ns); }

    std::vector<size_t> struck() const {
        std::vector<size_t> keys;
        const LateShape& shape = rank_.shape;
        for (size_t i = shape.first; i <= shape.last && i < rank_.costs.size(); ++i) {
            const bool in_turn = shape.every == 0 || (i - shape.first) % shape.every == 0;
            if (in_turn && rank_.costs[i] >= shape.typical_ns / 4) {
                keys.push_back(i);
            }
        }
        return keys;
    }

    double host_part() const {
        double host_ns = 0;
        double all_ns = 0;
        for (const size_t key : struck()) {
            host_ns += rank_.host_costs[key];
            all_ns += rank_.costs[key];
        }
        return all_ns > 0 ? host_ns / all_ns : 0;
    }

    static Against against(const std::vector<double>& own, const std::vector<double>& peers) {
        std::vector<double> excess;
        for (size_t i = 0; i < own.size(); ++i) {
            excess.push_back(own[i] - peers[i]);
        }
        return {median_of(std::move(excess)), median_of(own), median_of(peers)};
    }

    // What it has of each part in the steps in which it is late, of those on record, against its peers.
    std::map<std::string, Against> compare() const {
        std::map<std::string, std::vector<double>> own, of_peers;
        for (const size_t key : struck()) {
            const StepProfile* const step = process_.profile_of(axis_.keys[key]);
            std::map<std::string, std::vector<double>> here;
            size_t peers = 0;
            for (const Process* const peer : peers_) {
                if (const StepProfile* const of_peer = peer->profile_of(axis_.keys[key])) {
                    ++peers;
                    for (const auto& [name, value] : parts_of(*peer, *of_peer)) {
                        here[name].push_back(value);
                    }
                }
            }
            for (const auto& [name, value] : step == nullptr ? Values() : parts_of(process_, *step)) {
                std::vector<double>& of_part = here[name];
                of_part.resize(is_part(name) ? peers : of_part.size(), 0);
                if (!of_part.empty()) {
                    own[name].push_back(value);
                    of_peers[name].push_back(median_of(of_part));
                }
            }
        }
        std::map<std::string, Against> result;
        for (const auto& [name, values] : own) {
            result[name] = against(values, of_peers[name]);
        }
        return result;
    }

    // Program code is slow in one piece, or by launching more, or all over.
    void explain_host(const std::map<std::string, Against>& compared) {
        const Against gap = compared.contains(kGap) ? compared.at(kGap) : Against();
        if (gap.excess >= kLeastShareNamed * rank_.shape.typical_ns) {
            rank_.why.push_back(fmt::format("in one piece: {} without a call to CUDA or NCCL, {} with its peers",
                                            time(gap.own), time(gap.peers)));
        }
        const Against launches = compared.contains(kLaunches) ? compared.at(kLaunches) : Against();
        if (launches.excess >= kMoreLaunches * launches.peers && launches.excess > 0) {
            rank_.why.push_back(fmt::format("it hands its GPU {:.0f} pieces of work in such a step, its peers {:.0f}",
                                            launches.own, launches.peers));
        }
    }

    const TimeAxis& axis_;
    RankTiming& rank_;
    const Process& process_;
    std::vector<const Process*> peers_;
};

}  // namespace

void find_slow_parts(const Run& run, Timing& timing) {
    const std::vector<uint32_t> roles = roles_of(run);
    for (RankTiming& rank : timing.ranks) {
        if (rank.shape.pattern != LatePattern::kNone) {
            SlowPart(run, timing, rank, roles).find();
        }
    }
}

}  // namespace titan::analyzer
