// A program that registers its exit handler first of all, and still uses CUDA and NCCL in it.
#include <cstdlib>

#include "client.h"

using client::Rank;
using client::say;

namespace {

void use_of_old_and_new(Rank& r) {
    r.reduce_and_sync();
    CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    r.reduce_and_sync();
    r.stream = nullptr;  // the default stream
    r.reduce_and_sync();
    NCCL(ncclCommDestroy(r.comm));
}

Rank* rank = nullptr;

void in_handler() {
    use_of_old_and_new(*rank);
    say("handled");
}

int with_a_communicator() {
    REQUIRE(std::atexit(in_handler) == 0);
    rank = new Rank;
    rank->join();
    rank->reduce_and_sync();
    say("ready");
    return 0;
}

void first_use() {
    rank = new Rank;
    rank->join();
    use_of_old_and_new(*rank);
    say("handled");
}

int without_one() {
    REQUIRE(std::atexit(first_use) == 0);
    say("ready");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"with_a_communicator", with_a_communicator}, {"without_one", without_one}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
