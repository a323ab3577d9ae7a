// When work ended that no call shows the end of, by what waited for what on the streams.
#include <doctest/doctest.h>

#include <algorithm>

#include "node_chains.h"

namespace {

using namespace titan;
using analyzer::StepGraph;

constexpr int kChainRanks = 8;
constexpr uint32_t kChainSteps = 40;

// A step of a rank: work that is always seen to end, a call, work beside it, and a call that queues behind the first
// one but on the rank that works longest: in each step another one. `tail`: and work that no call shows the end of,
// which the next step's work queues behind.
struct Overlapped {
    static constexpr int64_t kFirstNs = 20'000'000, kSecondNs = 8'000'000, kCallNs = 10'000'000;
    static constexpr double kLonger = 1.5;

    explicit Overlapped(bool tail = false) : all(tail ? 5 : 4) {
        pieces.resize(all);
        pieces[0] = {11, format::kNoIndex, {}, 1, 0};
        pieces[1] = {0, 0, format::OpKind::kAllReduce, 2, 1};
        pieces[2] = {12, format::kNoIndex, {}, 2, 0};
        pieces[3] = {0, 0, format::OpKind::kAllReduce, 2, 1};
        if (tail) {
            pieces[1].waits_for = 3;  // for the call before, still
            pieces[4] = {13, format::kNoIndex, {}, 1, 0};
        }
        int64_t begin_ns = 1'000'000'000;
        for (int rank = 0; rank < kChainRanks; ++rank) {
            graph.processes.push_back(static_cast<uint32_t>(rank));
            graph.roles.push_back(0);
            graph.known_ns.push_back(1000);
            graph.begin.push_back(static_cast<uint32_t>(rank) * kChainSteps * all);
            orders.push_back(&pieces);
        }
        graph.begin.push_back(kChainRanks * kChainSteps * all);
        graph.steps = kChainSteps;
        raw.resize(graph.begin.back());
        graph.nodes.resize(raw.size());
        for (uint32_t step = 0; step < kChainSteps; ++step) {
            const auto first_ends_ns = begin_ns + static_cast<int64_t>(kLonger * kFirstNs) + kCallNs;
            const auto second_ends_ns = first_ends_ns + static_cast<int64_t>(kLonger * kSecondNs);
            for (int rank = 0; rank < kChainRanks; ++rank) {
                const double times = is_longest(rank, step) ? kLonger : 1;
                const int64_t worked_ns = begin_ns + static_cast<int64_t>(times * kFirstNs);
                const int64_t both_ns = worked_ns + static_cast<int64_t>(times * kSecondNs);
                add(rank, step, 0, {});
                add(rank, step, 1, {0, worked_ns, first_ends_ns, step, 0, format::OpKind::kAllReduce});
                add(rank, step, 2, {});
                add(rank, step, 3,
                    {0, std::max(first_ends_ns, both_ns), second_ends_ns, step, 0, format::OpKind::kAllReduce});
                if (tail) {
                    add(rank, step, 4, {});
                }
            }
            begin_ns = second_ends_ns;
        }
        std::vector<std::vector<uint32_t>> came;
        chain_by_streams(orders, raw, came, graph);
    }
    static bool is_longest(int rank, uint32_t step) { return rank == static_cast<int>(step % kChainRanks); }
    void add(int rank, uint32_t step, uint32_t slot, analyzer::RawNode node) {
        node.piece = slot;
        node.step = step;
        const uint32_t n = at(rank, step, slot);
        raw[n] = node;
        graph.nodes[n].step = step;
        graph.nodes[n].slot = slot;
    }
    uint32_t at(int rank, uint32_t step, uint32_t slot) const {
        return graph.begin[static_cast<size_t>(rank)] + step * all + slot;
    }
    // How long the work that is hidden took.
    int64_t second_ns(int rank, uint32_t step) const {
        return raw[at(rank, step, 2)].ended_ns - raw[at(rank, step, 0)].ended_ns;
    }

    const uint32_t all;  // pieces of a step
    StepGraph graph;
    std::vector<analyzer::StreamPiece> pieces;
    std::vector<const std::vector<analyzer::StreamPiece>*> orders;
    std::vector<analyzer::RawNode> raw;
};

}  // namespace

TEST_CASE("streams: work that is seen only where it takes long is not taken to be as long where it is not seen") {
    for (const bool tail : {false, true}) {
        const Overlapped job(tail);
        for (uint32_t step = 1; step + 1 < kChainSteps; ++step) {
            for (int rank = 0; rank < kChainRanks; ++rank) {
                const double times = Overlapped::is_longest(rank, step) ? Overlapped::kLonger : 1;
                CHECK(static_cast<double>(job.second_ns(rank, step)) ==
                      doctest::Approx(times * Overlapped::kSecondNs).epsilon(0.02));
            }
        }
    }
}

TEST_CASE("streams: hidden work had ended by when the work behind it was seen to end") {
    constexpr int64_t kMsNs = 1'000'000;
    const std::vector<analyzer::StreamPiece> pieces{{11, format::kNoIndex, {}, 1, 0},
                                                    {0, 0, format::OpKind::kAllReduce, 2, 1},
                                                    {11, format::kNoIndex, {}, 2, 0},  // as the first, but shorter
                                                    {12, format::kNoIndex, {}, 1, 0},
                                                    {0, 0, format::OpKind::kAllReduce, 3, 1}};
    const auto all = static_cast<uint32_t>(pieces.size());
    StepGraph graph;
    graph.processes = graph.roles = {0};
    graph.known_ns = {1000};
    graph.begin = {0, kChainSteps * all};
    graph.steps = kChainSteps;
    graph.nodes.resize(graph.begin.back());
    std::vector<analyzer::RawNode> raw(graph.begin.back());
    for (uint32_t n = 0; n < raw.size(); ++n) {
        const uint32_t step = n / all, piece = n % all;
        const int64_t begin_ns = int64_t{1000 + 50 * step} * kMsNs;
        raw[n].step = graph.nodes[n].step = step;
        raw[n].piece = graph.nodes[n].slot = piece;
        if (pieces[piece].is_call()) {
            const bool first = piece == 1;
            raw[n] = {0,
                      begin_ns + (first ? 20 : 33) * kMsNs,
                      begin_ns + (first ? 30 : 50) * kMsNs,
                      step,
                      0,
                      format::OpKind::kAllReduce};
            raw[n].piece = piece;
        }
    }
    std::vector<std::vector<uint32_t>> came;
    chain_by_streams({&pieces}, raw, came, graph);
    for (uint32_t step = 1; step < kChainSteps; ++step) {
        CHECK(raw[step * all + 3].ended_ns == raw[step * all + 4].arrived_ns);
        CHECK(raw[step * all + 2].ended_ns <= raw[step * all + 3].ended_ns);
    }
}

// One rank's GPU takes twice as long, and the others wait for it: only on that rank is the work seen that lies beside a
// call. Its host makes the calls so late that it may have kept the GPU waiting for some of the time.
TEST_CASE("streams: work that only a slow rank shows takes the others less") {
    constexpr int kSlow = 2;
    constexpr int64_t kFirstNs = 20'000'000, kSecondNs = 8'000'000, kCallNs = 1'000'000;
    const std::vector<analyzer::StreamPiece> pieces{{11, format::kNoIndex, {}, 1, 0},
                                                    {0, 0, format::OpKind::kAllReduce, 2, 1},
                                                    {12, format::kNoIndex, {}, 2, 0},
                                                    {0, 0, format::OpKind::kAllReduce, 2, 1}};
    const auto all = static_cast<uint32_t>(pieces.size());
    StepGraph graph;
    graph.steps = kChainSteps;
    std::vector<const std::vector<analyzer::StreamPiece>*> orders;
    for (uint32_t rank = 0; rank <= kChainRanks; ++rank) {
        graph.begin.push_back(rank * kChainSteps * all);
    }
    for (uint32_t rank = 0; rank < kChainRanks; ++rank) {
        graph.processes.push_back(rank);
        graph.roles.push_back(0);
        graph.known_ns.push_back(1000);
        orders.push_back(&pieces);
    }
    graph.nodes.resize(graph.begin.back());
    std::vector<analyzer::RawNode> raw(graph.begin.back());
    int64_t begin_ns = 1'000'000'000;
    for (uint32_t step = 0; step < kChainSteps; ++step) {
        const int64_t first_ns = begin_ns + 2 * kFirstNs + kCallNs;
        const int64_t second_ns = first_ns - kCallNs + 2 * kSecondNs + kCallNs;
        for (int rank = 0; rank < kChainRanks; ++rank) {
            const int times = rank == kSlow ? 2 : 1;
            const int64_t worked_ns = begin_ns + times * kFirstNs;
            const int64_t entered_ns = begin_ns + (rank == kSlow ? kFirstNs / 4 : 0);
            const uint32_t n = graph.begin[static_cast<size_t>(rank)] + step * all;
            raw[n + 1] = {entered_ns, worked_ns, first_ns, step, 0, format::OpKind::kAllReduce};
            raw[n + 3] = {entered_ns, std::max(first_ns, worked_ns + times * kSecondNs),
                          second_ns,  step,
                          0,          format::OpKind::kAllReduce};
            for (uint32_t piece = 0; piece < all; ++piece) {
                raw[n + piece].step = graph.nodes[n + piece].step = step;
                raw[n + piece].piece = graph.nodes[n + piece].slot = piece;
            }
        }
        begin_ns = second_ns;
    }
    std::vector<std::vector<uint32_t>> came;
    chain_by_streams(orders, raw, came, graph);
    for (int rank = 0; rank < kChainRanks; ++rank) {
        for (uint32_t step = 1; step + 1 < kChainSteps; ++step) {
            const uint32_t n = graph.begin[static_cast<size_t>(rank)] + step * all;
            CHECK(static_cast<double>(raw[n + 2].ended_ns - raw[n].ended_ns) ==
                  doctest::Approx(static_cast<double>((rank == kSlow ? 2 : 1) * kSecondNs)).epsilon(0.2));
        }
    }
}

// A layer computes twice with the same kernels; of the others the second time is hidden by what they wait for. The slow
// rank is not as much slower in these kernels as in others.
TEST_CASE("streams: hidden work takes a rank as long as its own work with the same kernels") {
    constexpr uint32_t kSlow = 2;
    constexpr int64_t kFirstNs = 10'000'000, kLayerNs = 8'000'000, kCallNs = 1'000'000;
    const std::vector<analyzer::StreamPiece> pieces{
        {11, format::kNoIndex, {}, 2, 1}, {0, 0, format::OpKind::kAllGather, 2, 1},
        {12, format::kNoIndex, {}, 2, 1}, {0, 0, format::OpKind::kReduceScatter, 2, 1},
        {12, format::kNoIndex, {}, 2, 0}, {0, 0, format::OpKind::kReduceScatter, 2, 1}};
    const auto all = static_cast<uint32_t>(pieces.size());
    StepGraph graph;
    graph.steps = kChainSteps;
    graph.processes = {0, 1, 2, 3};
    graph.roles = {0, 0, 0, 0};
    graph.known_ns = {1000, 1000, 1000, 1000};
    const std::vector<const std::vector<analyzer::StreamPiece>*> orders(graph.processes.size(), &pieces);
    for (uint32_t rank = 0; rank <= graph.processes.size(); ++rank) {
        graph.begin.push_back(rank * kChainSteps * all);
    }
    graph.nodes.resize(graph.begin.back());
    std::vector<analyzer::RawNode> raw(graph.begin.back());
    for (const uint32_t rank : graph.processes) {
        int64_t begin_ns = 1'000'000'000;
        for (uint32_t step = 0; step < kChainSteps; ++step) {
            const uint32_t n = graph.begin[rank] + step * all;
            const int64_t gathered_ns = begin_ns + 3 * kFirstNs + kCallNs;
            const int64_t first_ns = gathered_ns + 2 * kLayerNs + kCallNs;
            const int64_t second_ns = gathered_ns + 4 * kLayerNs + kCallNs;
            const int64_t layer_ns = (rank == kSlow ? 2 : 1) * kLayerNs;
            raw[n + 1].arrived_ns = begin_ns + (rank == kSlow ? 3 : 1) * kFirstNs;
            raw[n + 1].ended_ns = gathered_ns;
            raw[n + 3].arrived_ns = gathered_ns + layer_ns;
            raw[n + 3].ended_ns = first_ns;
            raw[n + 5].arrived_ns = std::max(first_ns, gathered_ns + 2 * layer_ns);
            raw[n + 5].ended_ns = second_ns;
            for (uint32_t piece = 0; piece < all; ++piece) {
                raw[n + piece].row = pieces[piece].row;
                raw[n + piece].kind = pieces[piece].kind;
                raw[n + piece].step = graph.nodes[n + piece].step = step;
                raw[n + piece].piece = graph.nodes[n + piece].slot = piece;
            }
            begin_ns = second_ns;
        }
    }
    std::vector<std::vector<uint32_t>> came;
    chain_by_streams(orders, raw, came, graph);
    for (const uint32_t rank : graph.processes) {
        const uint32_t n = graph.begin[rank] + kChainSteps / 2 * all;
        CHECK(static_cast<double>(raw[n + 4].ended_ns - raw[n + 2].ended_ns) ==
              doctest::Approx(static_cast<double>((rank == kSlow ? 2 : 1) * kLayerNs)).epsilon(0.02));
    }
}

TEST_CASE("streams: what a host does before the first call of a step is no work of the step before") {
    constexpr int64_t kMsNs = 1'000'000, kCallNs = 5 * kMsNs, kWorkNs = 10 * kMsNs, kLateNs = 100 * kMsNs;
    const auto is_late = [](uint32_t step) { return step % 5 == 4; };
    const auto chained = [&](bool by_period) {
        const std::vector<analyzer::StreamPiece> pieces{{0, 0, format::OpKind::kAllReduce, 1, 0},
                                                        {11, format::kNoIndex, {}, 1, 0}};
        StepGraph graph;
        graph.by_period = by_period;
        graph.processes = graph.roles = {0};
        graph.known_ns = {1000};
        graph.begin = {0, 2 * kChainSteps};
        graph.steps = kChainSteps;
        graph.nodes.resize(graph.begin.back());
        std::vector<analyzer::RawNode> raw(graph.begin.back());
        int64_t ended_ns = 1'000'000'000;  // the work before
        for (uint32_t step = 0; step < kChainSteps; ++step) {
            const int64_t entered_ns = ended_ns + (is_late(step) ? kLateNs : -kMsNs);
            const int64_t arrived_ns = std::max(ended_ns, entered_ns);
            raw[2 * step] = {entered_ns, arrived_ns, arrived_ns + kCallNs, step, 0, format::OpKind::kAllReduce};
            raw[2 * step + 1] = {0, 0, 0, step};
            for (const uint32_t piece : {0u, 1u}) {
                raw[2 * step + piece].piece = graph.nodes[2 * step + piece].slot = piece;
                graph.nodes[2 * step + piece].step = step;
            }
            ended_ns = arrived_ns + kCallNs + kWorkNs;
        }
        std::vector<std::vector<uint32_t>> came;
        const std::vector<const std::vector<analyzer::StreamPiece>*> orders{&pieces};
        chain_by_streams(orders, raw, came, graph);
        return raw;
    };
    const std::vector<analyzer::RawNode> marked = chained(false);
    const std::vector<analyzer::RawNode> unmarked = chained(true);
    for (uint32_t step = 0; step + 1 < kChainSteps; ++step) {
        const auto worked_ns = [&](const std::vector<analyzer::RawNode>& raw) {
            return raw[2 * step + 1].ended_ns - raw[2 * step].ended_ns;
        };
        CHECK(worked_ns(marked) == kWorkNs);
        // A period of calls begins with a call: what a host does before that is the period's before it.
        CHECK(worked_ns(unmarked) == (is_late(step + 1) ? kWorkNs + kLateNs : kWorkNs));
    }
}
