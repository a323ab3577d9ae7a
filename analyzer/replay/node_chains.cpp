#include "node_chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/hash.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

// A call that comes so soon after the one before on its stream had queued. Where the GPU is looked at now and then, one
// look shows both.
constexpr int64_t kQueuedNs = 50'000;
constexpr int64_t kMostKnownNs = 300'000;
constexpr uint32_t kLookBack = 32;      // nodes, in program order, among which is what a node or its host waited for
constexpr double kCommonSlot = 0.5;     // share of the ranks that do the same of which a slot must be seen
constexpr double kOftenSeen = 0.5;      // share of the steps
constexpr double kMostlySeen = 0.9;     // then it is not only seen where it takes long
constexpr double kAsOftenSeen = 0.5;    // times as often as another
constexpr double kOfHost = 0.1;         // share of the time of a piece: then its host was late, not its GPU
constexpr double kLongestNs = 1e15;     // of work: more is damage
constexpr double kSeenWhereLong = 1.1;  // times as long as usual was the work before it
constexpr size_t kLeastOften = 3;       // times
constexpr double kAboveResolved = 3;    // times what the method of observing resolves

// The mean of the middle half: values differ by whole looks, and pauses are no work.
double middle_mean(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t cut = values.size() / 4;
    return values.empty() ? 0
                          : std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(cut),
                                            values.end() - static_cast<std::ptrdiff_t>(cut), 0.0) /
                                static_cast<double>(values.size() - 2 * cut);
}

// A node's own time counts from what ended last before it came, or, where nothing has ended since a node before it
// came, from that.
void count_from_newest(const std::vector<RawNode>& raw, StepGraph& graph, size_t r, uint32_t n) {
    StepNode& node = graph.nodes[n];
    node.before = kNoIndex;
    node.after_end = false;
    int64_t newest_ns = INT64_MIN;
    for (uint32_t other = n; other-- > graph.begin[r] && n - other <= kLookBack;) {
        const bool end = raw[other].ended_ns != 0 && raw[other].ended_ns <= raw[n].arrived_ns + graph.known_ns[r];
        const int64_t time_ns = end ? raw[other].ended_ns : raw[other].arrived_ns;
        if (raw[other].arrived_ns <= raw[n].arrived_ns && time_ns > newest_ns) {
            newest_ns = time_ns;
            node.before = other;
            node.after_end = end;
        }
    }
}

// A node behind all that it waits for, also where times are known to a look only.
void put_as_they_came(const std::vector<RawNode>& raw, size_t r, std::vector<std::vector<uint32_t>>& all,
                      StepGraph& graph) {
    const uint32_t first = graph.begin[r];
    std::vector<uint32_t>& came = all.emplace_back();
    std::vector<int64_t> times_ns;
    for (uint32_t n = first; n < graph.begin[r + 1]; ++n) {
        int64_t time_ns = raw[n].arrived_ns;
        for (const uint32_t other : {graph.nodes[n].before, graph.nodes[n].after}) {
            time_ns = other == kNoIndex ? time_ns : std::max(time_ns, times_ns[other - first]);
        }
        times_ns.push_back(time_ns);
        came.push_back(n);
    }
    std::stable_sort(came.begin(), came.end(),
                     [&](uint32_t a, uint32_t b) { return times_ns[a - first] < times_ns[b - first]; });
    const auto last = std::find_if(came.rbegin(), came.rend(), [&](uint32_t n) { return raw[n].is_call(); });
    graph.last.push_back(last == came.rend() ? kNoIndex : *last);
}

class StreamChains {
  public:
    StreamChains(const std::vector<const std::vector<StreamPiece>*>& orders, std::vector<RawNode>& raw,
                 StepGraph& graph)
        : orders_(orders), raw_(raw), graph_(graph), ends_(raw.size()) {}

    void chain(std::vector<std::vector<uint32_t>>& came) {
        graph_.for_each_node([this](size_t r, uint32_t n) { connect(r, n); });
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            see_ends(r);
        }
        learn();
        learn_at_end();
        // What begins where filled-in work ends is seen now, too.
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            fill_ends(r);
        }
        are_filled_in_ = true;
        learn();
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            fill_ends(r);
            put_as_they_came(raw_, r, came, graph_);
        }
    }

  private:
    // When the work of a node ended.
    struct End {
        bool seen = false;              // a call that waited for nothing else came then
        bool in_next_step = false;      // that call
        int64_t latest_ns = INT64_MAX;  // calls behind it had come by then
    };

    bool is_regular(uint32_t n) const { return raw_[n].piece != kNoIndex; }

    // The node so many pieces before, if that step is as ordered as this one.
    uint32_t node_before(size_t r, uint32_t n, uint32_t back) const {
        const size_t size = orders_[r]->size();
        return back != 0 && n >= graph_.begin[r] + back && raw_[n - back].piece == (raw_[n].piece + size - back) % size
                   ? n - back
                   : kNoIndex;
    }

    void connect(size_t r, uint32_t n) {
        StepNode& node = graph_.nodes[n];
        node.after_both = true;
        if (!is_regular(n)) {
            node.before = n == graph_.begin[r] ? kNoIndex : n - 1;
            node.after_end = node.before != kNoIndex;
            return;
        }
        const StreamPiece& piece = (*orders_[r])[raw_[n].piece];
        node.after = node_before(r, n, piece.waits_for);
        node.before = node_before(r, n, piece.and_for);
        if (node.before == kNoIndex) {
            std::swap(node.before, node.after);
        }
        if (node.before == kNoIndex && !raw_[n].is_call() && n != graph_.begin[r]) {
            node.before = n - 1;  // what it waited for is in a step of another order: at least that came before
        }
        node.after_end = node.before != kNoIndex;
    }

    int64_t end_ns(uint32_t n) const { return n == kNoIndex ? 0 : std::max(raw_[n].ended_ns, raw_[n].arrived_ns); }

    // A call tells when the work ended that it waited for, unless it came as the call before on its stream ended, or
    // its host was late.
    void see_ends(size_t r) {
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            if (!raw_[n].is_call()) {
                continue;
            }
            const StepNode& node = graph_.nodes[n];
            for (const auto& [work, other] : {std::pair(node.before, node.after), std::pair(node.after, node.before)}) {
                if (work == kNoIndex || raw_[work].is_call()) {
                    continue;
                }
                End& end = ends_[work];
                end.latest_ns = std::min(end.latest_ns, raw_[n].arrived_ns);
                const bool queued =
                    other != kNoIndex &&
                    (!raw_[other].is_call() || raw_[n].arrived_ns < raw_[other].ended_ns + kQueuedNs +
                                                                        std::min(graph_.known_ns[r], kMostKnownNs));
                if (!queued && !end.seen) {
                    end.seen = true;
                    end.in_next_step = !graph_.by_period && graph_.nodes[work].before != kNoIndex &&
                                       graph_.nodes[n].step != graph_.nodes[work].step;
                    raw_[work].ended_ns = raw_[work].arrived_ns = raw_[n].arrived_ns;
                    raw_[work].entered_ns = raw_[n].entered_ns;
                }
            }
        }
        // What waits for the work had not begun before it ended, and had ended by when its own end is bounded.
        for (uint32_t n = graph_.begin[r + 1]; n-- > graph_.begin[r];) {
            const int64_t by_ns = raw_[n].is_call() ? raw_[n].arrived_ns
                                  : ends_[n].seen   ? std::min(raw_[n].ended_ns, ends_[n].latest_ns)
                                                    : ends_[n].latest_ns;
            for (const uint32_t work : {graph_.nodes[n].before, graph_.nodes[n].after}) {
                if (work != kNoIndex && !raw_[work].is_call()) {
                    ends_[work].latest_ns = std::min(ends_[work].latest_ns, by_ns);
                }
            }
        }
    }

    bool is_seen(uint32_t n) const { return n == kNoIndex || raw_[n].is_call() || ends_[n].seen; }

    // When the node could begin is known: what it waited for was seen to end, or had ended before something else did.
    bool is_begin_known(uint32_t n) const {
        const StepNode& node = graph_.nodes[n];
        const auto ended_by = [&](uint32_t one, uint32_t other) {
            return is_seen(one) || (is_seen(other) && ends_[one].latest_ns <= end_ns(other));
        };
        return are_filled_in_ || (ended_by(node.before, node.after) && ended_by(node.after, node.before));
    }

    int64_t since_ns(uint32_t n) const {
        const StepNode& node = graph_.nodes[n];
        return std::max(end_ns(node.before), end_ns(node.after));
    }

    // For so long its host kept it waiting.
    double host_ns(uint32_t n) const {
        return static_cast<double>(std::max<int64_t>(0, raw_[n].entered_ns - since_ns(n)));
    }

    // How long it took, if its host kept it waiting for half of that time.
    double rough_ns(uint32_t n) const { return static_cast<double>(raw_[n].ended_ns - since_ns(n)) - host_ns(n) / 2; }

    // How long a rank's piece of work takes, or all pieces of the same kernels, where both of their ends are seen.
    struct Seen {
        double mean_ns = 0;
        double often = 0;  // share of its steps: what is seen seldom is seen where it takes long
        // Likewise, but counting steps in which the host may have kept it waiting for a part of that time.
        double rough_ns = 0;
        double least_ns = 0;  // if its host kept it waiting for as long as it may have
        double roughly_often = 0;
        // What is seen where it takes long alone: so many times as long as usual was the work before it then, and by
        // that `mean_ns` is divided. Else 1.
        double times = 1;
    };

    bool is_well_seen(size_t r, const Seen& seen) const {
        return seen.often >= kMostlySeen ||
               (seen.often >= kOftenSeen && seen.mean_ns > kAboveResolved * static_cast<double>(graph_.known_ns[r]));
    }

    // By piece.
    std::vector<Seen> seen_of(size_t r) const {
        std::vector<std::vector<double>> took_ns(orders_[r]->size());
        std::vector<std::vector<double>> rough(orders_[r]->size()), least(orders_[r]->size());
        std::vector<size_t> times(orders_[r]->size(), 0);
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            const StepNode& node = graph_.nodes[n];
            if (raw_[n].is_call() || node.before == kNoIndex) {
                continue;
            }
            ++times[raw_[n].piece];
            const auto ran_ns = static_cast<double>(raw_[n].ended_ns - since_ns(n));
            if (!ends_[n].seen || !is_begin_known(n)) {
                continue;
            }
            rough[raw_[n].piece].push_back(rough_ns(n));
            least[raw_[n].piece].push_back(ran_ns - host_ns(n));
            if (host_ns(n) <= kOfHost * ran_ns) {
                took_ns[raw_[n].piece].push_back(ran_ns);
            }
        }
        std::vector<Seen> seen;
        for (size_t piece = 0; piece < took_ns.size(); ++piece) {
            const auto all = static_cast<double>(std::max<size_t>(1, times[piece]));
            const auto often = static_cast<double>(took_ns[piece].size()) / all;
            const auto roughly_often = static_cast<double>(rough[piece].size()) / all;
            seen.push_back({middle_mean(std::move(took_ns[piece])), often, middle_mean(std::move(rough[piece])),
                            middle_mean(std::move(least[piece])), roughly_often});
            if (are_filled_in_ && seen_[r][piece].often > 0) {
                seen.back() = seen_[r][piece];
            }
        }
        return seen;
    }

    void learn() {
        seen_.resize(graph_.ranks());
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            seen_[r] = seen_of(r);
        }
        if (!any_leads_) {
            leads_.clear();
            for (size_t r = 0; r < graph_.ranks(); ++r) {
                leads_.push_back(leads_of(r));
                any_leads_ |= std::any_of(leads_[r].begin(), leads_[r].end(), [](uint32_t back) { return back != 0; });
            }
            learn_where_long();
        }
        compare();
    }

    // How many pieces before each piece the last work is that is seen in nearly each step; 0: there is none.
    std::vector<uint32_t> leads_of(size_t r) const {
        const std::vector<StreamPiece>& order = *orders_[r];
        std::vector<uint32_t> leads(order.size(), 0);
        uint32_t back = 0;
        for (size_t i = 0; i < 2 * order.size(); ++i) {  // twice: the first ones follow those of the step before
            const size_t piece = i % order.size();
            leads[piece] = back;
            const bool is_lead = !order[piece].is_call() && seen_[r][piece].roughly_often >= kMostlySeen;
            back = is_lead ? 1 : back == 0 ? 0 : back + 1;
        }
        return leads;
    }

    // How many times as long as usual that work was; 0: nothing tells.
    double times_before(size_t r, uint32_t n) const {
        const uint32_t before = node_before(r, n, leads_[r][raw_[n].piece]);
        if (before == kNoIndex || !ends_[before].seen || !is_begin_known(before)) {
            return 0;
        }
        return rough_ns(before) / seen_[r][raw_[before].piece].rough_ns;
    }

    // Lengths that are uneven: who has the longest shows it, the others wait.
    void learn_where_long() {
        std::map<std::pair<uint32_t, uint32_t>, std::vector<double>> times;  // by role and piece
        graph_.for_each_node([&](size_t r, uint32_t n) {
            if (!raw_[n].is_call() && ends_[n].seen && is_begin_known(n) && is_seldom(r, raw_[n].piece)) {
                if (const double before = times_before(r, n); before > 0) {
                    times[{graph_.roles[r], raw_[n].piece}].push_back(before);
                }
            }
        });
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            for (uint32_t piece = 0; piece < seen_[r].size(); ++piece) {
                const auto found = times.find({graph_.roles[r], piece});
                if (found != times.end() && is_seldom(r, piece) && found->second.size() >= kLeastOften) {
                    const double middle = median_of(found->second);
                    seen_[r][piece].times = middle > kSeenWhereLong ? middle : 1;
                    seen_[r][piece].mean_ns /= seen_[r][piece].times;
                }
            }
        }
    }

    bool is_seldom(size_t r, size_t piece) const { return seen_[r][piece].often < kOftenSeen; }

    void compare() {
        // A role is a hash of the order, too: what a damaged record makes of it need not be as long.
        std::map<std::pair<uint32_t, size_t>, std::vector<size_t>> by_role;
        of_kernels_.clear();
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            by_role[{graph_.roles[r], orders_[r]->size()}].push_back(r);
        }
        shares_.assign(graph_.ranks(), 1);
        for (const auto& [role, ranks] : by_role) {
            measure_shares(ranks);
            learn_usual(role.first, ranks);
        }
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            of_kernels_.emplace_back();
            for (size_t piece = 0; piece < seen_[r].size(); ++piece) {
                Seen& best = of_kernels_.back()[(*orders_[r])[piece].kernels];
                best = seen_[r][piece].often > best.often ? seen_[r][piece] : best;
            }
        }
    }

    // By what most ranks that do the same show often; if they show nothing so, roughly. A rank that shows none of it
    // often has at least the share of what it would have if its host had kept it waiting.
    void measure_shares(const std::vector<size_t>& ranks) {
        if (!measure_shares(ranks, false)) {
            measure_shares(ranks, true);
        }
    }

    bool measure_shares(const std::vector<size_t>& ranks, bool roughly) {
        const auto seen_as = [&](size_t r, size_t piece) {
            const Seen& seen = seen_[r][piece];
            return roughly ? Seen{seen.rough_ns, seen.roughly_often} : Seen{seen.mean_ns, seen.often};
        };
        std::vector<std::pair<double, double>> sums(ranks.size());   // own, usual
        std::vector<std::pair<double, double>> least(ranks.size());  // likewise, where it is seen roughly alone
        bool any = false;
        for (size_t piece = 0; piece < orders_[ranks.front()]->size(); ++piece) {
            std::vector<double> often_ns;
            for (const size_t r : ranks) {
                if (const Seen seen = seen_as(r, piece); is_well_seen(r, seen)) {
                    often_ns.push_back(seen.mean_ns);
                }
            }
            if (static_cast<double>(often_ns.size()) <= kCommonSlot * static_cast<double>(ranks.size())) {
                continue;
            }
            const double usual_ns = median_of(std::move(often_ns));
            any |= usual_ns > 0;
            for (size_t i = 0; i < ranks.size(); ++i) {
                if (const Seen seen = seen_as(ranks[i], piece); is_well_seen(ranks[i], seen)) {
                    sums[i].first += seen.mean_ns;
                    sums[i].second += usual_ns;
                } else if (seen_[ranks[i]][piece].roughly_often >= kMostlySeen) {
                    least[i].first += seen_[ranks[i]][piece].least_ns;
                    least[i].second += usual_ns;
                }
            }
        }
        for (size_t i = 0; i < ranks.size(); ++i) {
            shares_[ranks[i]] = sums[i].first > 0 && sums[i].second > 0 ? sums[i].first / sums[i].second
                                : least[i].second > 0 ? std::max(1.0, least[i].first / least[i].second)
                                                      : 1;
        }
        return any;
    }

    void learn_usual(uint32_t role, const std::vector<size_t>& ranks) {
        for (size_t piece = 0; piece < orders_[ranks.front()]->size(); ++piece) {
            Seen usual;
            for (const size_t r : ranks) {
                usual.often = std::max(usual.often, seen_[r][piece].often);
            }
            std::vector<double> of_share_1_ns;
            for (const size_t r : ranks) {
                if (usual.often > 0 && seen_[r][piece].often >= kAsOftenSeen * usual.often) {
                    of_share_1_ns.push_back(seen_[r][piece].mean_ns / shares_[r]);
                    usual.times = std::max(usual.times, seen_[r][piece].times);
                }
            }
            usual.mean_ns = median_of(std::move(of_share_1_ns));
            usual_[{role, static_cast<uint32_t>(piece)}] = usual;
        }
    }

    // 0 where nothing tells.
    double usual_ns(size_t r, uint32_t n) const {
        const Seen& own = of_kernels_[r].at((*orders_[r])[raw_[n].piece].kernels);
        const Seen& usual = usual_.at({graph_.roles[r], raw_[n].piece});
        const bool by_own = is_well_seen(r, own) || own.often >= usual.often;
        const double took_ns = by_own ? own.mean_ns : usual.mean_ns * shares_[r];
        const double longer = (by_own ? own : usual).times > 1 ? times_before(r, n) : 1;
        return took_ns * (longer > 0 ? longer : 1);
    }

    // It took as long as usual, but calls behind it had come by then.
    int64_t likely_end_ns(size_t r, uint32_t n) const {
        const int64_t latest_ns = ends_[n].latest_ns;
        if (graph_.nodes[n].before == kNoIndex) {  // what it waited for is not on record
            return latest_ns == INT64_MAX ? 0 : latest_ns;
        }
        const int64_t begun_ns = since_ns(n);
        const double took_ns = std::clamp(usual_ns(r, n), 0.0, kLongestNs);
        return std::max(begun_ns, std::min(begun_ns + static_cast<int64_t>(took_ns), latest_ns));
    }

    // Work at the end of a step whose end the first call of the next one shows. If its host made that call late, the
    // time until then belongs to the next step, as what the host did meanwhile does.
    void end_with_its_step(size_t r, uint32_t n) {
        const int64_t usual_end_ns = since_ns(n) + at_end_ns_.at({graph_.roles[r], raw_[n].piece});
        if (raw_[n].entered_ns > usual_end_ns) {
            raw_[n].ended_ns = raw_[n].arrived_ns = std::min(raw_[n].ended_ns, usual_end_ns);
        }
    }

    void learn_at_end() {
        std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> took_ns;
        graph_.for_each_node([&](size_t r, uint32_t n) {
            if (ends_[n].in_next_step) {
                took_ns[{graph_.roles[r], raw_[n].piece}].push_back(raw_[n].ended_ns - since_ns(n));
            }
        });
        for (auto& [piece, ns] : took_ns) {
            at_end_ns_[piece] = typical_of(std::move(ns));
        }
    }

    void fill_ends(size_t r) {
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            if (!raw_[n].is_call() && !ends_[n].seen) {
                raw_[n].ended_ns = raw_[n].arrived_ns = likely_end_ns(r, n);
            } else if (!raw_[n].is_call() && ends_[n].in_next_step) {
                end_with_its_step(r, n);
            } else if (raw_[n].is_call() && raw_[n].entered_ns > since_ns(n)) {
                follow_host(r, n);
            }
        }
    }

    // The host made the call when its GPU had nothing to do: it had waited for something else.
    void follow_host(size_t r, uint32_t n) {
        StepNode& node = graph_.nodes[n];
        if (node.before != kNoIndex && node.after != kNoIndex) {
            return;
        }
        node.after = node.before;
        count_from_newest(raw_, graph_, r, n);
        if (node.before == node.after) {
            node.after = kNoIndex;
        }
    }

    const std::vector<const std::vector<StreamPiece>*>& orders_;
    std::vector<RawNode>& raw_;
    StepGraph& graph_;
    std::vector<End> ends_;
    bool are_filled_in_ = false;
    bool any_leads_ = false;  // else they are looked for again where filled-in work tells when more of it began
    std::vector<std::vector<Seen>> seen_;                         // by rank and piece
    std::vector<std::vector<uint32_t>> leads_;                    // likewise
    std::vector<double> shares_;                                  // by rank: its work beside that of its peers
    std::map<std::pair<uint32_t, uint32_t>, Seen> usual_;         // by role and piece, of a rank of share 1
    std::map<std::pair<uint32_t, uint32_t>, int64_t> at_end_ns_;  // likewise: how long it takes at the end of a step
    std::vector<std::unordered_map<uint64_t, Seen>> of_kernels_;  // by rank
};

}  // namespace

uint64_t mix_order(uint64_t hash, const std::vector<StreamPiece>& order) {
    for (const StreamPiece& piece : order) {
        hash = mix_hash(hash, uint64_t{piece.waits_for} << 16 | piece.and_for);
    }
    return hash;
}

bool one_has_other_work(const std::vector<const std::vector<StreamPiece>*>& orders,
                        const std::vector<uint32_t>& roles) {
    std::map<uint64_t, std::map<uint64_t, size_t>> alike;  // by calls, and by the work between them: how many ranks
    for (size_t r = 0; r < orders.size(); ++r) {
        uint64_t calls = roles[r];
        for (const StreamPiece& piece : *orders[r]) {
            calls = piece.is_call() ? mix_hash(calls, static_cast<uint64_t>(piece.kind)) : calls;
        }
        ++alike[calls][mix_order(0, *orders[r])];
    }
    return std::ranges::any_of(alike, [](const auto& of_calls) {
        const auto alone = [](const auto& of_work) { return of_work.second == 1; };
        return of_calls.second.size() == 2 && std::ranges::count_if(of_calls.second, alone) == 1;
    });
}

void chain_nodes(const std::vector<RawNode>& raw, std::vector<std::vector<uint32_t>>& came, StepGraph& graph) {
    graph.for_each_node([&](size_t r, uint32_t n) { count_from_newest(raw, graph, r, n); });
    for (size_t r = 0; r < graph.ranks(); ++r) {
        put_as_they_came(raw, r, came, graph);
    }
}

void chain_by_streams(const std::vector<const std::vector<StreamPiece>*>& orders, std::vector<RawNode>& raw,
                      std::vector<std::vector<uint32_t>>& came, StepGraph& graph) {
    StreamChains(orders, raw, graph).chain(came);
}

}  // namespace titan::analyzer
