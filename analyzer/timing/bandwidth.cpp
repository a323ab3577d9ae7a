// Finds collectives that are slow themselves, independent of late ranks: compares the time that the last member to come
// spends in them, by size class, with similar communicators and with their own past.
#include "bandwidth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "collective_instances.h"
#include "robust.h"
#include "timing.h"

namespace titan::analyzer {
namespace {

constexpr double kLeastRatio = 1.5;
constexpr double kLeastExcessNs = 1'000'000;
constexpr double kLeastShareLost = 0.03;  // share of the time that was seen
constexpr size_t kLeastRounds = 10;
constexpr size_t kLeastSiblings = 2;

struct Taken {
    int64_t key = 0;
    int64_t when_ns = 0;
    uint64_t bytes = 0;
    double ns = 0;
};

// Operation, size class, members.
using Class = std::tuple<OpKind, int, int>;

struct Series {
    uint32_t communicator = kNoIndex;
    std::vector<Taken> taken;
    double noise_ns = 0;
    bool steps = true;

    double median_ns(size_t first = 0, size_t last = SIZE_MAX) const {
        std::vector<double> values;
        for (size_t i = first; i < std::min(last, taken.size()); ++i) {
            values.push_back(taken[i].ns);
        }
        return median_of(std::move(values));
    }
    // So many would be slow even if chance made some of them fast.
    double quarter_ns(size_t first = 0) const {
        std::vector<double> values;
        for (size_t i = first; i < taken.size(); ++i) {
            values.push_back(taken[i].ns);
        }
        return quantile_of(std::move(values), 0.25);
    }
};

bool is_slower(double ns, double usual_ns, double noise_ns) {
    return ns >= kLeastRatio * usual_ns && ns - usual_ns >= std::max(kLeastExcessNs, 3 * noise_ns);
}

// The position where the medians before and after differ most, by squared distances.
size_t change_point(const Series& series) {
    double best = 0;
    size_t at = 0;
    std::vector<double> sums{0};
    for (const Taken& taken : series.taken) {
        sums.push_back(sums.back() + std::log(std::max(1.0, taken.ns)));
    }
    const size_t n = series.taken.size();
    for (size_t i = kLeastRounds / 2; i + kLeastRounds / 2 <= n; ++i) {
        const double before = sums[i] / static_cast<double>(i);
        const double after = (sums[n] - sums[i]) / static_cast<double>(n - i);
        const double gain = (after - before) * (after - before) * static_cast<double>(i) * static_cast<double>(n - i);
        if (after > before && gain > best) {
            best = gain;
            at = i;
        }
    }
    return at;
}

class Bandwidth {
  public:
    Bandwidth(const Run& run, Timing& timing) : run_(run), timing_(timing) {}

    void find() {
        for (uint32_t c = 0; c < run_.communicators.size(); ++c) {
            collect(c);
        }
        for (auto& [of_class, all] : classes_) {
            against_siblings(of_class, all);
        }
        for (auto& [of_class, all] : classes_) {
            against_history(of_class, all);
        }
        std::stable_sort(timing_.slow.begin(), timing_.slow.end(),
                         [](const SlowCollective& a, const SlowCollective& b) { return a.lost_ns > b.lost_ns; });
    }

  private:
    void collect(uint32_t index) {
        const Communicator& communicator = run_.communicators[index];
        std::map<Class, Series> here;
        const std::vector<CollectiveInstance> instances = instances_of(run_, communicator);
        for (const CollectiveInstance& instance : instances) {
            if (!instance.ended || !instance.on_device || instance.bytes == 0) {
                continue;
            }
            Series& series = here[{instance.kind, std::bit_width(instance.bytes), communicator.size}];
            series.communicator = index;
            series.steps = instance.step >= 0;
            for (const Participant& participant : instance.participants) {
                series.noise_ns =
                    std::max(series.noise_ns, static_cast<double>(resolution_ns(run_.process(participant.member))));
            }
            const Participant& participant = instance.participants.front();
            const int64_t when_ns = timing_.clocks.common_ns(participant.member.process, participant.arrival->ended_ns);
            series.taken.push_back(
                {instance.key(), when_ns, instance.bytes, static_cast<double>(transfer_ns(instance))});
        }
        for (auto& [of_class, series] : here) {
            if (series.taken.size() >= kLeastRounds) {
                classes_[of_class].push_back(std::move(series));
            }
        }
    }

    double seen_ns(const Series& series) const {
        return static_cast<double>(series.taken.back().when_ns - series.taken.front().when_ns);
    }

    SlowCollective describe(const Class& of_class, const Series& series, double usual_ns, size_t first) const {
        SlowCollective slow;
        slow.communicators = {series.communicator};
        slow.op = std::get<0>(of_class);
        slow.compared_calls = series.taken.size() - first;
        slow.taken_ns = series.median_ns(first);
        slow.usual_ns = usual_ns;
        slow.steps = series.steps;
        slow.since = series.taken[first].key;
        slow.since_ns = series.taken[first].when_ns;
        for (size_t i = first; i < series.taken.size(); ++i) {
            slow.bytes = std::max(slow.bytes, series.taken[i].bytes);
            slow.lost_ns += std::max(0.0, series.taken[i].ns - usual_ns);
        }
        const double bytes = bus_bytes(slow.op, slow.bytes, run_.communicators[series.communicator].size);
        slow.bus_bytes_per_s = bytes / (std::max(slow.taken_ns, series.noise_ns) * 1e-9);
        slow.usual_bus_bytes_per_s = bytes / (std::max(slow.usual_ns, series.noise_ns) * 1e-9);
        return slow;
    }

    // Changed from fast to slow at some point?
    size_t since(const Series& series, double usual_ns, bool& known) const {
        const size_t at = change_point(series);
        known = at != 0 && !is_slower(series.median_ns(0, at), usual_ns, series.noise_ns) &&
                is_slower(series.median_ns(at), usual_ns, series.noise_ns);
        return known ? at : 0;
    }

    void against_siblings(const Class& of_class, std::vector<Series>& all) {
        if (all.size() < kLeastSiblings + 1) {
            return;
        }
        std::vector<double> medians;
        for (const Series& series : all) {
            medians.push_back(series.median_ns());
        }
        std::vector<std::pair<const Series*, SlowCollective>> slow;
        std::set<uint32_t> slow_ones;
        for (const Series& series : all) {
            // Fast before, slow now: the newest part counts.
            const double usual_ns = median_of(medians);
            bool known = false;
            const size_t first = since(series, usual_ns, known);
            if (series.taken.size() - first < kLeastRounds ||
                !is_slower(series.quarter_ns(first), usual_ns, series.noise_ns)) {
                continue;
            }
            SlowCollective one = describe(of_class, series, usual_ns, first);
            one.since_known = known;
            if (one.lost_ns >= kLeastShareLost * seen_ns(series)) {
                slow_ones.insert(series.communicator);
                slow.emplace_back(&series, std::move(one));
            }
        }
        if (slow.empty() || slow.size() * 2 > all.size()) {
            return;  // most of them: nothing to compare with but the past
        }
        SlowCollective merged = slow.front().second;
        for (size_t i = 1; i < slow.size(); ++i) {
            const SlowCollective& one = slow[i].second;
            merged.communicators.push_back(one.communicators.front());
            merged.taken_ns = std::max(merged.taken_ns, one.taken_ns);
            merged.bus_bytes_per_s = std::min(merged.bus_bytes_per_s, one.bus_bytes_per_s);
            merged.lost_ns = std::max(merged.lost_ns, one.lost_ns);
            merged.since_known = merged.since_known && one.since_known;
            if (one.since < merged.since) {
                merged.since = one.since;
                merged.since_ns = one.since_ns;
            }
        }
        merged.hosts = common_hosts(slow_ones, all);
        add(std::move(merged));
    }

    void against_history(const Class& of_class, const std::vector<Series>& all) {
        std::vector<SlowCollective> slow;
        for (const Series& series : all) {
            const size_t at = change_point(series);
            if (at < kLeastRounds || series.taken.size() - at < kLeastRounds) {
                continue;
            }
            const double before_ns = series.median_ns(0, at);
            if (is_slower(series.quarter_ns(at), before_ns, series.noise_ns)) {
                SlowCollective one = describe(of_class, series, before_ns, at);
                one.since_known = one.against_history = true;
                if (one.lost_ns >= kLeastShareLost * seen_ns(series)) {
                    slow.push_back(std::move(one));
                }
            }
        }
        if (slow.empty()) {
            return;
        }
        SlowCollective merged = slow.front();
        for (size_t i = 1; i < slow.size(); ++i) {
            merged.communicators.push_back(slow[i].communicators.front());
            merged.lost_ns = std::max(merged.lost_ns, slow[i].lost_ns);
            merged.since = std::min(merged.since, slow[i].since);
            merged.since_ns = std::min(merged.since_ns, slow[i].since_ns);
        }
        add(std::move(merged));
    }

    // One finding for one cause: other sizes and operations of the same communicators add to it.
    void add(SlowCollective slow) {
        for (SlowCollective& known : timing_.slow) {
            const bool shared = std::any_of(slow.communicators.begin(), slow.communicators.end(), [&](uint32_t c) {
                return std::find(known.communicators.begin(), known.communicators.end(), c) !=
                       known.communicators.end();
            });
            if (shared) {
                const double lost_ns = std::max(known.lost_ns, slow.lost_ns);
                if (slow.lost_ns > known.lost_ns && (slow.against_history || !known.against_history)) {
                    const bool against_history = known.against_history && slow.against_history;
                    if (!slow.against_history || known.against_history) {
                        known = std::move(slow);
                    }
                    known.against_history = against_history;
                }
                known.lost_ns = lost_ns;
                return;
            }
        }
        timing_.slow.push_back(std::move(slow));
    }

    std::set<std::string> hosts_of(uint32_t communicator) const {
        std::set<std::string> hosts;
        for (const MemberRef ref : run_.communicators[communicator].members) {
            hosts.insert(run_.process(ref).host);
        }
        return hosts;
    }

    std::vector<std::string> common_hosts(const std::set<uint32_t>& slow, const std::vector<Series>& all) const {
        std::set<std::string> common = hosts_of(*slow.begin());
        for (const uint32_t c : slow) {
            std::set<std::string> both;
            const std::set<std::string> hosts = hosts_of(c);
            std::set_intersection(common.begin(), common.end(), hosts.begin(), hosts.end(),
                                  std::inserter(both, both.end()));
            common = std::move(both);
        }
        for (const Series& series : all) {
            const std::set<std::string> hosts = hosts_of(series.communicator);
            if (!slow.contains(series.communicator) &&
                std::includes(hosts.begin(), hosts.end(), common.begin(), common.end())) {
                return {};
            }
        }
        return {common.begin(), common.end()};
    }

    const Run& run_;
    Timing& timing_;
    std::map<Class, std::vector<Series>> classes_;
};

}  // namespace

double bus_bytes(OpKind kind, uint64_t bytes, int members) {
    const double n = std::max(members, 1);
    const auto passed = static_cast<double>(bytes);
    switch (kind) {
        case OpKind::kAllReduce: return passed * 2 * (n - 1) / n;
        case OpKind::kAllGather:
        case OpKind::kReduceScatter:
        case OpKind::kAllToAll: return passed * (n - 1);  // passed is the part of one member
        default: return passed;
    }
}

void find_slow_collectives(const Run& run, Timing& timing) { Bandwidth(run, timing).find(); }

}  // namespace titan::analyzer
