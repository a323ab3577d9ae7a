// A straggler must be one whichever other rank or host is left out: a result that depends on a single file may be
// chance.
#include "stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lateness.h"
#include "patterns.h"
#include "timing.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostExclusions = 16;  // ranks, and as many hosts: each costs a comparison of all instances
constexpr double kLeastLeft = 0.3;      // share of the cost
constexpr double kAbove = 2;            // times what any rank costs that is not called late

struct Exclusion {
    std::string name;
    std::vector<uint32_t> processes;
};

class Stability {
  public:
    Stability(const Run& run, const Lateness& lateness, Timing& timing)
        : run_(run), lateness_(lateness), timing_(timing), late_(run.processes.size()) {}

    void find() {
        std::vector<RankTiming*> late;
        for (RankTiming& rank : timing_.ranks) {
            if (rank.shape.pattern != LatePattern::kNone) {
                late.push_back(&rank);
                late_[rank.process] = true;
            }
        }
        if (late.empty()) {
            return;
        }
        for (const Exclusion& without : choose(late)) {
            std::vector<bool> excluded(run_.processes.size());
            for (const uint32_t process : without.processes) {
                excluded[process] = true;
            }
            Timing again;
            lateness_.tell(again, excluded);
            classify(again);
            for (RankTiming* rank : late) {
                if (!excluded[rank->process]) {
                    judge(*rank, without, again);
                }
            }
        }
    }

  private:
    // Ranks that a late one is compared with and their hosts, evenly chosen where there are many.
    std::vector<Exclusion> choose(const std::vector<RankTiming*>& late) const {
        std::set<uint32_t> communicators;
        for (const RankTiming* rank : late) {
            for (const Member& member : run_.processes[rank->process].members) {
                communicators.insert(member.communicator);
            }
        }
        communicators.erase(kNoIndex);
        std::vector<bool> compared(run_.processes.size());
        for (const uint32_t communicator : communicators) {
            for (const MemberRef ref : run_.communicators[communicator].members) {
                compared[ref.process] = true;
            }
        }
        std::vector<Exclusion> ranks;
        std::map<uint32_t, Exclusion> of_host;
        for (uint32_t p = 0; p < compared.size(); ++p) {
            if (!compared[p]) {
                continue;
            }
            ranks.push_back({fmt::format("rank {}", run_.processes[p].rank), {p}});
            Exclusion& host = of_host[timing_.clocks.host_of[p]];
            host.name = "host " + run_.processes[p].host;
            host.processes.push_back(p);
        }
        std::vector<Exclusion> hosts;
        for (auto& [number, host] : of_host) {
            hosts.push_back(std::move(host));
        }
        std::vector<Exclusion> all;
        thin(std::move(ranks), all);
        thin(std::move(hosts), all);
        return all;
    }

    static void thin(std::vector<Exclusion> from, std::vector<Exclusion>& into) {
        const size_t count = std::min(from.size(), kMostExclusions);
        for (size_t i = 0; i < count; ++i) {
            into.push_back(std::move(from[i * from.size() / count]));
        }
    }

    // If there is nobody to compare with, nothing is contradicted.
    void judge(RankTiming& rank, const Exclusion& without, const Timing& again) const {
        const RankTiming* own = nullptr;
        double others_ns = 0;
        for (const RankTiming& other : again.ranks) {
            own = other.process == rank.process && other.rank == rank.rank ? &other : own;
            others_ns = std::max(others_ns, late_[other.process] ? 0 : other.lost_ns);
        }
        if (!rank.vanishes_without.empty() || own == nullptr) {
            return;
        }
        const double least_ns = kLeastLeft * rank.shape.cost_ns;
        const bool stays = (own->shape.pattern != LatePattern::kNone && own->shape.cost_ns >= least_ns) ||
                           (own->lost_ns >= least_ns && own->lost_ns >= kAbove * others_ns);
        rank.vanishes_without = stays ? "" : without.name;
    }

    const Run& run_;
    const Lateness& lateness_;
    Timing& timing_;
    std::vector<bool> late_;  // index: process
};

}  // namespace

void find_contradictions(const Run& run, const Lateness& lateness, Timing& timing) {
    Stability(run, lateness, timing).find();
}

}  // namespace titan::analyzer
