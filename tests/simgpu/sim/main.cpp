// titan-sim: see options.cpp for what it does.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "check.h"
#include "launcher.h"
#include "rendezvous.h"

using namespace simgpu;

namespace {

void make_comms(Trainer& trainer, const Options& options, const std::string& directory, bool world_exists) {
    for (const std::string& name : Trainer::comm_names()) {
        if (name == "world" && world_exists) {
            continue;
        }
        const bool split = options.use_split && options.train.layout.world() > 1;
        if (split && name != "world") {
            trainer.split_comm(name);
            continue;
        }
        trainer.init_comm(name, [&] {
            const Membership group = trainer.member_of(name);
            const std::string file = name + "." + std::to_string(group.color);
            if (group.rank != 0) {
                return await_id(directory, file);
            }
            ncclUniqueId id;
            NCCL_CHECK(ncclGetUniqueId(&id));
            publish_id(directory, file, id);
            return id;
        });
    }
}

int environment_number(const char* name) {
    const char* text = std::getenv(name);
    if (!text) {
        die(kExitUsage, "%s is not set", name);
    }
    return std::atoi(text);
}

int run_rank(const Options& options) {
    const char* directory = std::getenv("SIMGPU_RENDEZVOUS");
    Trainer trainer(options.train, environment_number("RANK"), environment_number("LOCAL_RANK"));
    make_comms(trainer, options, directory, false);
    trainer.run();
    trainer.destroy_comms();
    return kExitOk;
}

// All ranks in this process, one thread each, the world made by ncclCommInitAll.
int run_threads(const Options& options) {
    const int world = options.train.layout.world();
    const char* directory = std::getenv("SIMGPU_RENDEZVOUS");
    std::vector<ncclComm_t> worlds(static_cast<size_t>(world));
    if (world > 1) {
        NCCL_CHECK(ncclCommInitAll(worlds.data(), world, nullptr));
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank) {
        threads.emplace_back([&, rank] {
            auto* trainer = new Trainer(options.train, rank, rank);  // its watchdog may outlive the loop
            trainer->adopt_comm("world", worlds[static_cast<size_t>(rank)]);
            make_comms(*trainer, options, directory, true);
            trainer->run();
            trainer->destroy_comms();
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse_options(argc, argv);
    // A bad script ends here, once, before any rank exists.
    const FaultScript script = FaultScript::from_environment();
    for (const Fault& fault : script.faults()) {
        const bool needs_graphs = fault.action == FaultAction::kGraphSkip;
        if (needs_graphs != options.train.graphs && (needs_graphs || fault.action == FaultAction::kGraphEager)) {
            die(kExitUsage, "%s: makes sense only with%s --graphs", fault.text.c_str(), needs_graphs ? "" : "out");
        }
    }
    if (!std::getenv("SIMGPU_RENDEZVOUS")) {
        return launch_ranks(options, argv);
    }
    return options.threads ? run_threads(options) : run_rank(options);
}
