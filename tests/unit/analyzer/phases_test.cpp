// One vocabulary for the spans of all frameworks.
#include "phases.h"

#include <doctest/doctest.h>

using titan::analyzer::phase_of;

TEST_CASE("spans of every framework have the phase that they are") {
    for (const auto& [name, phase] : {std::pair{"training_single_iteration", "training_single_iteration"},
                                      {"step", "training_single_iteration"},
                                      {"forward-compute", "model_forward"},
                                      {"model forward", "model_forward"},
                                      {"Fetching Batch", "data_loading"},
                                      {"TESTING_SINGLE_ITERATION", "testing_single_iteration"},
                                      {"train/valid/test-data-iterators-setup", "data_loader_initialization"},
                                      {"fwd_bwd", "forward_backward"},
                                      {"optim", "optimizer_update"}}) {
        CHECK(phase_of(name) == phase);
    }
    for (const char* unknown : {"", " ", "~", "forward-compute ", "any", "rollout"}) {
        CHECK(phase_of(unknown).empty());
    }
}
