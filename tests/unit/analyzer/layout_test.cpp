#include <doctest/doctest.h>

#include "layout.h"
#include "played.h"

using namespace titan::test;
using titan::analyzer::Layout;
using titan::analyzer::phrase;
using titan::analyzer::rank_fact;
using titan::analyzer::ranks_fact;
using titan::analyzer::Role;
using titan::analyzer::role_of_name;
using titan::analyzer::RoleSource;
using titan::analyzer::Sentence;
using titan::format::OpKind;

namespace {

// tp fastest, then dp, then pp: as frameworks number their ranks. `names` may leave names out.
struct Grid {
    int tp, dp, pp;
    int size() const { return tp * dp * pp; }
    std::vector<std::vector<int>> groups(int stride, int count) const {
        std::vector<std::vector<int>> all;
        for (int first = 0; first < size(); ++first) {
            if (first / stride % count == 0) {
                all.emplace_back();
                for (int i = 0; i < count; ++i) {
                    all.back().push_back(first + i * stride);
                }
            }
        }
        return all;
    }
};

void add_groups(Scenario& job, const std::string& name, const std::vector<std::vector<int>>& groups) {
    for (size_t i = 0; i < groups.size(); ++i) {
        job.communicator(name + std::to_string(i), groups[i]);
    }
}

// One step on every communicator: collectives, and sends down the pipeline.
void run_grid(Scenario& job, const Grid& grid, const std::string& tp, const std::string& dp, const std::string& pp) {
    add_groups(job, tp, grid.groups(1, grid.tp));
    add_groups(job, dp, grid.groups(grid.tp, grid.dp));
    add_groups(job, pp, grid.groups(grid.tp * grid.dp, grid.pp));
    job.every_rank([&](int rank, Program& program) {
        const int stage = rank / (grid.tp * grid.dp);
        const std::string tp_name = tp + std::to_string(rank / grid.tp);
        const std::string dp_name = dp + std::to_string(rank % grid.tp + stage * grid.tp);
        const std::string pp_name = pp + std::to_string(rank % (grid.tp * grid.dp));
        if (stage > 0) {
            program.recv(pp_name, stage - 1);
        }
        program.all_reduce(tp_name);
        if (stage + 1 < grid.pp) {
            program.send(pp_name, stage + 1);
        }
        program.all_reduce(dp_name).all_reduce("world").sync();
    });
}

const Layout& layout(const Run& run) { return *run.layout; }

}  // namespace

TEST_CASE("names of groups tell their axis, in the words of every framework") {
    const std::vector<std::pair<const char*, Role>> names{
        {"tp:0", Role::kTensor},
        {"TENSOR_MODEL_PARALLEL_GROUP", Role::kTensor},
        {"mesh_tp", Role::kTensor},
        {"attention_tp", Role::kTensor},
        {"DATA_PARALLEL_GROUP", Role::kData},
        {"dp", Role::kData},
        {"mesh_dp_shard", Role::kDataShard},
        {"fsdp", Role::kDataShard},
        {"mesh_dp_replicate", Role::kDataReplicate},
        {"PIPELINE_MODEL_PARALLEL_GROUP", Role::kPipeline},
        {"pp:3", Role::kPipeline},
        {"CONTEXT_PARALLEL_GROUP", Role::kContext},
        {"dcp:1", Role::kContext},
        {"EXPERT_MODEL_PARALLEL_GROUP", Role::kExpert},
        {"EXPERT_TENSOR_PARALLEL_GROUP", Role::kExpertTensor},
        {"EXPERT_DATA_PARALLEL_GROUP", Role::kExpertData},
        {"moe_tp", Role::kExpertTensor},
        {"default_pg", Role::kWorld},
        {"world", Role::kWorld},
        {"EMBEDDING_GROUP", Role::kEmbedding},
        {"MODEL_PARALLEL_GROUP", Role::kSeveral},
        {"DATA_PARALLEL_GROUP_WITH_CP", Role::kSeveral},
        {"TENSOR_AND_DATA_PARALLEL_GROUP", Role::kSeveral},
        {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", Role::kSeveral},
        {"ep_dp", Role::kSeveral},
        {"mesh_dp_cp", Role::kSeveral},
        {"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", Role::kNoRole},
        {"mesh_dim_0", Role::kNoRole},
        {"undefined", Role::kNoRole},
        {"0:1", Role::kNoRole},
        {"", Role::kNoRole},
        {"dpx", Role::kNoRole},
    };
    for (const auto& [name, role] : names) {
        CAPTURE(name);
        CHECK(role_of_name(name) == role);
    }
}

TEST_CASE("named communicators give every rank its place") {
    Scenario job(16);
    run_grid(job, {2, 2, 4}, "tp:", "dp:", "pp:");
    const Run run = play(job).run;
    CHECK(layout(run).place_text(13) == "stage 3, dp rank 0, tp rank 1, node node-1");
    CHECK(layout(run).ranks_text({5}) == "rank 5 (stage 1, dp rank 0, tp rank 1, node node-0)");
    CHECK(layout(run).ranks_text({12, 13, 14, 15}) == "all of stage 3 (ranks 12-15)");
    CHECK(layout(run).ranks_text({0, 1, 2, 3, 4, 5, 6, 7}) == "all of node node-0 (ranks 0-7)");
    CHECK(layout(run).ranks_text({1, 3, 5, 7, 9, 11, 13, 15}) == "tp rank 1 of every group (ranks 1,3,...,15)");
    CHECK(layout(run).ranks_text({12, 13}) == "ranks 12-13 (stage 3, dp rank 0, node node-1)");
    CHECK(titan::analyzer::ranks_text(run, {0, 2, 4, 6, 8, 10, 12, 14}) == "ranks 0,2,...,14");
    CHECK(layout(run).roles()[*run.find_communicator(run.communicators[0].id)].source != RoleSource::kInferred);
}

TEST_CASE("communicators without names are told apart by their structure and what runs on them") {
    Scenario job(16);
    run_grid(job, {2, 4, 2}, "a", "b", "c");
    const Run run = play(job).run;
    CHECK(layout(run).place_text(13) == "stage 1, dp rank 2, tp rank 1, node node-1");
    REQUIRE(layout(run).dimensions().size() == 3);
    for (const auto& dimension : layout(run).dimensions()) {
        CHECK(dimension.inferred);
        CHECK(dimension.complete);
        CHECK(dimension.why.starts_with("inferred: "));
    }
}

TEST_CASE("a pipeline of all ranks has stages of one rank each; whoever talks to all others is none") {
    for (const bool only_neighbours : {true, false}) {
        Scenario job(4);
        job.communicator("a", {0, 1, 2, 3});
        job.every_rank([&](int rank, Program& program) {
            if (rank > 0) {
                program.recv("a", rank - 1);
            }
            if (rank < 3) {
                program.send("a", rank + 1);
            }
            if (rank == 0 && !only_neighbours) {
                program.send("a", 2);
            } else if (rank == 2 && !only_neighbours) {
                program.recv("a", 0);
            }
            program.all_reduce("world").sync();
        });
        const Played played = play(job);
        CAPTURE(only_neighbours);
        for (int rank = 0; rank < 4; ++rank) {
            const auto* place = layout(played.run).place_of(rank);
            REQUIRE(place != nullptr);
            CHECK(place->in(Role::kPipeline) == (only_neighbours ? rank : -1));
        }
    }
}

TEST_CASE("members that send whenever they receive are no pipeline: they pass messages around, or to all others") {
    struct Shape {
        int size;
        bool to_all;
        Role role;
    };
    // A ring of two is an all-to-all of two.
    for (const auto& [size, to_all, role] :
         {Shape{2, false, Role::kNoRole}, Shape{4, false, Role::kContext}, Shape{4, true, Role::kExpert}}) {
        Scenario job(8);
        add_groups(job, "a", Grid{size, 8 / size, 1}.groups(1, size));
        add_groups(job, "b", Grid{4, 1, 2}.groups(4, 2));
        job.every_rank([&](int rank, Program& program) {
            const std::string around = "a" + std::to_string(rank / size);
            const std::string stages = "b" + std::to_string(rank % 4);
            for (int i = 0; i < 3; ++i) {
                rank < 4 ? program.send(stages, 1) : program.recv(stages, 0);
                program.group_start();
                for (int away = 1; away < (to_all ? size : 2); ++away) {
                    program.send(around, (rank % size + away) % size).recv(around, (rank % size + size - away) % size);
                }
                program.group_end();
            }
            program.sync();
        });
        const Played played = play(job);
        CAPTURE(size);
        CAPTURE(to_all);
        const auto* place = layout(played.run).place_of(5);
        REQUIRE(place != nullptr);
        CHECK(place->in(Role::kPipeline) == 1);
        CHECK(place->in(Role::kContext) == (role == Role::kContext ? 1 : -1));
        CHECK(place->in(Role::kExpert) == (role == Role::kExpert ? 1 : -1));
    }
}

TEST_CASE("neighbours whose scattered sums the others add up are shards of data parallel ranks, not tensor parallel") {
    const auto place = [](uint64_t summed, uint64_t inner_sum) {
        Scenario job(4);
        const Grid grid{2, 2, 1};
        add_groups(job, "a", grid.groups(1, 2));
        add_groups(job, "b", grid.groups(2, 2));
        job.every_rank([&](int rank, Program& program) {
            const std::string inner = "a" + std::to_string(rank / 2);
            const std::string outer = "b" + std::to_string(rank % 2);
            program.all_gather(inner, 2080).reduce_scatter(inner, 2080).all_reduce(outer, summed);
            program.reduce_scatter(inner, 520).all_reduce(outer, 520);
            program.all_reduce(inner, inner_sum).all_reduce(outer, 1).sync();
        });
        return layout(play(job).run).place_text(3);
    };
    CHECK(place(2080, 1) == "dp replica 1, dp shard 1");
    CHECK(place(4096, 1) == "dp rank 1, tp rank 1");  // sums of their own: gradients of what tensor parallel ranks hold
    CHECK(place(2080, 1024) == "dp rank 1, tp rank 1");  // sums of activations
}

TEST_CASE("what is inferred never contradicts a name, and what could be two things is neither") {
    SUBCASE("neighbours alone may be tensor or data parallel") {
        Scenario job(8);
        add_groups(job, "x", Grid{4, 2, 1}.groups(1, 4));
        job.every_rank([](int rank, Program& program) { program.all_reduce("x" + std::to_string(rank / 4)).sync(); });
        CHECK(layout(play(job).run).place_text(5).empty());
    }
    SUBCASE("neighbours that are named data parallel") {
        Scenario job(8);
        run_grid(job, {2, 4, 1}, "dp:", "b", "c");
        const Run run = play(job).run;
        CHECK(layout(run).place_text(5) == "dp rank 1");
    }
    SUBCASE("groups of unequal size keep their names") {
        Scenario job(6);
        job.communicator("tp:0", {0, 1});
        job.communicator("tp:1", {2, 3, 4, 5});
        job.every_rank([](int rank, Program& program) { program.all_reduce(rank < 2 ? "tp:0" : "tp:1").sync(); });
        const Run run = play(job).run;
        CHECK(layout(run).place_text(4) == "tp rank 2");
        CHECK_FALSE(layout(run).dimensions().front().regular);
    }
    SUBCASE("two groups of one name that place a rank differently") {
        Scenario job(4);
        job.communicator("dp:0", {0, 1, 2, 3});
        job.communicator("dp:1", {2, 3});
        job.every_rank([](int, Program& program) { program.all_reduce("dp:0").sync(); });
        const Run run = play(job).run;
        CHECK(layout(run).place_text(1) == "dp rank 1");
        CHECK(layout(run).place_text(3).empty());
    }
}

TEST_CASE("a missing rank has a place where its group shows it, and nothing is folded that cannot be seen whole") {
    Scenario job(16);
    run_grid(job, {2, 2, 4}, "tp:", "dp:", "pp:");
    job.play();
    const Run run = run_of(job, {13});
    CHECK(layout(run).place_text(13) == "stage 3, dp rank 0, tp rank 1");
    CHECK(layout(run).fold({8, 9, 10, 11, 12, 14, 15}).empty());
    CHECK(layout(run).ranks_text({12, 13, 14, 15}) == "all of stage 3 (ranks 12-15)");
}

TEST_CASE("labels of the program are believed first") {
    Scenario job(4);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.play();
    for (int rank = 0; rank < 4; ++rank) {
        for (const auto& [key, value] : std::vector<std::pair<std::string, int>>{{"pp_rank", rank / 2}, {"tp", 2}}) {
            auto& label = job.ring(rank).add_marker(titan::format::MarkerKind::kLabel);
            label.name = job.ring(rank).text(key);
            label.text = job.ring(rank).text(std::to_string(value));
        }
    }
    const Run run = run_of(job);
    CHECK(layout(run).place_text(3) == "stage 1");  // "tp=2" on every rank is a size
    CHECK(layout(run).dimensions().front().by_label);
}

TEST_CASE("places go to where a sentence first names these very ranks") {
    Scenario job(4);
    job.communicator("tp:0", {0, 1});
    job.communicator("tp:1", {2, 3});
    job.every_rank([](int rank, Program& program) { program.all_reduce(rank < 2 ? "tp:0" : "tp:1").sync(); });
    const Run run = play(job).run;
    const auto told = [&](Sentence sentence, const std::vector<int>& who) {
        add_places(run, who, sentence);
        return sentence.text();
    };
    CHECK(told(phrase("{} and {} and {}", rank_fact(13), rank_fact(1), rank_fact(1)), {1}) ==
          "rank 13 and rank 1 (tp rank 1) and rank 1");
    CHECK(told("rank 1 waits, says somebody", {1}) == "rank 1 waits, says somebody");
    CHECK(told(phrase("{} wait", ranks_fact({1, 3, 5})), {1, 3}) == "ranks 1,3,5 wait");
    CHECK(told(phrase("{} wait", ranks_fact({3, 1})), {1, 3}) == "tp rank 1 of every group (ranks 1,3) wait");
}
