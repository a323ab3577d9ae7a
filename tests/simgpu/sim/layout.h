// Where a rank stands in the grid of tensor, data and pipeline parallelism (Megatron's order: tensor fastest).
#pragma once

#include <string>

namespace simgpu {

struct Layout {
    int dp = 1, tp = 1, pp = 1;

    int world() const { return dp * tp * pp; }
    int tp_rank(int rank) const { return rank % tp; }
    int dp_rank(int rank) const { return rank / tp % dp; }
    int pp_rank(int rank) const { return rank / (tp * dp); }
};

// One communicator as a rank sees it: its group is told apart from its siblings by `color`.
struct Membership {
    std::string name;
    int color = 0;
    int rank = 0;
    int size = 1;
};

inline Membership membership(const Layout& layout, const std::string& name, int rank) {
    const int tp = layout.tp_rank(rank), dp = layout.dp_rank(rank), pp = layout.pp_rank(rank);
    if (name == "tp") {
        return {name, dp + layout.dp * pp, tp, layout.tp};
    }
    if (name == "dp") {
        return {name, tp + layout.tp * pp, dp, layout.dp};
    }
    if (name == "pp") {
        return {name, tp + layout.tp * dp, pp, layout.pp};
    }
    return {"world", 0, rank, layout.world()};
}

}  // namespace simgpu
