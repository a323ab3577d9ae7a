#include "group.h"

#include <algorithm>
#include <map>
#include <thread>

namespace simgpu {

namespace {

struct Pending {
    std::unique_ptr<Plan> plan;
    std::vector<CUstream> streams;
};

struct Group {
    int depth = 0;
    ncclResult_t error = ncclSuccess;
    std::vector<Pending> plans;  // one per communicator, in the order of first use
    std::vector<InitJob> jobs;
};

Group& group() {
    thread_local Group instance;
    return instance;
}

using Chain = std::vector<InitJob>;

ncclResult_t run_chain(Chain& chain) {
    ncclResult_t result = ncclSuccess;
    for (InitJob& job : chain) {
        const ncclResult_t one = job.run();
        job.done(one);
        if (job.core) {
            job.core->async_result = one;
        }
        if (result == ncclSuccess) {
            result = one;
        }
    }
    if (chain.front().parent && !chain.front().parent->abort) {
        chain.front().parent->async_result = ncclSuccess;
    }
    return result;
}

std::vector<Chain> chains_of(std::vector<InitJob> jobs) {
    std::vector<Chain> chains;
    for (InitJob& job : jobs) {
        auto same = std::find_if(chains.begin(), chains.end(),
                                 [&](const Chain& chain) { return job.parent && chain.front().parent == job.parent; });
        if (same == chains.end()) {
            chains.emplace_back();
            same = std::prev(chains.end());
        }
        same->push_back(std::move(job));
    }
    return chains;
}

ncclResult_t run_jobs(std::vector<InitJob> jobs) {
    const bool background = std::any_of(jobs.begin(), jobs.end(), [](const InitJob& job) {
        return job.core ? !job.core->blocking : job.parent && !job.parent->blocking;
    });
    auto chains = std::make_shared<std::vector<Chain>>(chains_of(std::move(jobs)));
    if (background) {
        for (Chain& chain : *chains) {
            if (chain.front().parent) {
                chain.front().parent->async_result = ncclInProgress;
            }
            std::thread([chains, &chain] { run_chain(chain); }).detach();
        }
        return ncclInProgress;
    }
    if (chains->size() == 1) {
        return run_chain(chains->front());
    }
    std::vector<ncclResult_t> results(chains->size(), ncclSuccess);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < chains->size(); ++i) {
        threads.emplace_back([&, i] { results[i] = run_chain((*chains)[i]); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    auto failed = std::find_if(results.begin(), results.end(), [](ncclResult_t r) { return r != ncclSuccess; });
    return failed == results.end() ? ncclSuccess : *failed;
}

}  // namespace

int group_depth() { return group().depth; }

ncclResult_t group_begin() {
    ++group().depth;
    profile_group_start();
    return ncclSuccess;
}

ncclResult_t group_error(ncclResult_t error) {
    Group& mine = group();
    if (error != ncclSuccess && error != ncclInProgress && mine.depth > 0 && mine.error == ncclSuccess) {
        mine.error = error;
    }
    return error;
}

Plan& group_plan(const CoreRef& core, CUstream stream, OpKind kind) {
    auto& plans = group().plans;
    auto found = std::find_if(plans.begin(), plans.end(), [&](const Pending& p) { return p.plan->core == core; });
    if (found == plans.end()) {
        plans.push_back({std::make_unique<Plan>(), {}});
        found = std::prev(plans.end());
        found->plan->core = core;
        found->plan->kind = kind;
    }
    if (std::find(found->streams.begin(), found->streams.end(), stream) == found->streams.end()) {
        found->streams.push_back(stream);
    }
    return *found->plan;
}

void group_add(InitJob job) { group().jobs.push_back(std::move(job)); }

namespace {

ncclResult_t launch_group() {
    Group& mine = group();
    Group work = std::move(mine);
    mine = Group{};
    if (work.error != ncclSuccess) {
        for (InitJob& job : work.jobs) {
            job.done(work.error);
        }
        return work.error;
    }
    ncclResult_t result = work.jobs.empty() ? ncclSuccess : run_jobs(std::move(work.jobs));
    for (Pending& pending : work.plans) {
        if (result != ncclSuccess && result != ncclInProgress) {
            break;
        }
        const ncclResult_t launched = launch(std::move(pending.plan), pending.streams);
        result = launched != ncclSuccess ? launched : result;
    }
    return result;
}

}  // namespace

ncclResult_t group_end() {
    Group& mine = group();
    if (mine.depth == 0) {
        return ncclInvalidUsage;
    }
    profile_group_end();
    const ncclResult_t result = --mine.depth > 0 ? ncclSuccess : launch_group();
    profile_group_is_over();
    return result;
}

ncclResult_t group_simulate_end(float* estimated_us) {
    Group& mine = group();
    if (mine.depth == 0) {
        return ncclInvalidUsage;
    }
    if (--mine.depth > 0) {
        return ncclSuccess;
    }
    size_t bytes = 0;
    for (const Pending& pending : mine.plans) {
        for (const CollectiveOp& op : pending.plan->collectives) {
            bytes += op.count;
        }
    }
    const ncclResult_t error = mine.error;
    mine = Group{};
    *estimated_us = 10.0f + static_cast<float>(bytes) / 1e5f;
    return error;
}

}  // namespace simgpu
