// PyTorch jobs whose hosts run ahead of their GPUs, as timed Flight Recorder files tell of them: durations are exact,
// when a call ended is when the watchdog came to look, and every host makes its calls in time.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "fr_process.h"
#include "link_run.h"
#include "load_run.h"

namespace titan::test {

struct FileOptions {
    enum Shape { kFsdp, kHsdp, kTensorParallel } shape = kFsdp;
    int ranks = 8;
    int layers = 6;
    int steps = 20;
    double compute_ms = 60;  // of a step
    int slow_rank = -1;
    double slow = 1.6;  // times as long, its kernels
    double jitter = 0.02;
    uint64_t seed = 1;
};

class FileJob {
  public:
    explicit FileJob(const FileOptions& options)
        : options_(options), random_(options.seed), ranks_(static_cast<size_t>(options.ranks)) {
        dumps_.resize(ranks_.size());
        for (auto& dump : dumps_) {
            dump.version = "2.10";
            dump.minor = 10;
            dump.texts.emplace_back();
        }
        const int inner = options.shape == FileOptions::kFsdp ? options.ranks : std::max(2, options.ranks / 4);
        shards_ = make_groups("shard", options.ranks / inner, inner, 1, inner);
        replicas_ = make_groups("replicate", inner, options.ranks / inner, inner, 1);
        for (int step = 0; step < options.steps; ++step) {
            options.shape == FileOptions::kTensorParallel ? tensor_parallel_step() : sharded_step();
            for (Rank& rank : ranks_) {  // the loss is printed
                rank.host_ns = std::max(rank.host_ns, rank.compute_ns) + 1e5;
            }
        }
    }

    format::fr::Dump& dump(int rank) { return dumps_[static_cast<size_t>(rank)]; }

    // `left_out`: ranks whose file is lost.
    analyzer::Run run(const std::vector<int>& left_out = {}) const {
        analyzer::Run run;
        analyzer::GroupRanks groups;
        for (int r = 0; r < options_.ranks; ++r) {
            if (std::find(left_out.begin(), left_out.end(), r) == left_out.end()) {
                run.processes.push_back(
                    analyzer::process_of_dump(dumps_[static_cast<size_t>(r)], r, kEpochNs + 600'000'000'000, groups));
            }
        }
        analyzer::complete_flight_recorder(run, groups);
        analyzer::link(run);
        return run;
    }

  private:
    static constexpr int64_t kEpochNs = 1'750'000'000'000'000'000;

    struct Rank {
        double host_ns = 0;
        double compute_ns = 0;          // its streams have come to
        double comm_ns[2] = {0, 0};     // of shards, of replicas
        std::vector<double> behind_ns;  // when the computation of each layer ended
    };
    struct Group {
        std::vector<int> ranks;
        int64_t next = 1;
    };
    using Groups = std::vector<Group>;

    uint32_t text(int rank, const std::string& words) {
        auto& texts = dump(rank).texts;
        const auto number = static_cast<size_t>(std::find(texts.begin(), texts.end(), words) - texts.begin());
        texts.resize(std::max(texts.size(), number + 1), words);
        return static_cast<uint32_t>(number);
    }

    Groups make_groups(const std::string& desc, int count, int size, int stride, int next_group) {
        Groups groups;
        for (int g = 0; g < count && size > 1; ++g) {
            Group group;
            for (int i = 0; i < size; ++i) {
                group.ranks.push_back(g * next_group + i * stride);
            }
            for (const int rank : group.ranks) {
                dump(rank).groups.push_back(
                    {text(rank, desc + std::to_string(g)), text(rank, desc), {group.ranks.begin(), group.ranks.end()}});
            }
            groups.push_back(group);
        }
        return groups;
    }

    Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

    void compute(int r, double ms, double not_before_ns) {
        Rank& rank = at(r);
        rank.host_ns += 5e4;
        const double noise = std::exp(std::normal_distribution<double>(0, options_.jitter)(random_));
        rank.compute_ns = std::max({rank.compute_ns, rank.host_ns, not_before_ns}) +
                          ms * 1e6 * noise * (r == options_.slow_rank ? options_.slow : 1);
    }

    // On stream `lane`, each member's no earlier than `ready` says; what they all end at.
    template <typename Ready>
    void collective(Groups& groups, size_t lane, const std::string& op, Ready&& ready) {
        for (size_t g = 0; g < groups.size(); ++g) {
            Group& group = groups[g];
            double last_ns = 0;
            std::vector<double> starts;
            for (const int r : group.ranks) {
                Rank& rank = at(r);
                rank.host_ns += 2e4;
                starts.push_back(std::max({rank.comm_ns[lane], rank.host_ns, ready(r)}));
                last_ns = std::max(last_ns, starts.back());
            }
            for (size_t i = 0; i < group.ranks.size(); ++i) {
                const int r = group.ranks[i];
                at(r).comm_ns[lane] = last_ns + 3e5;
                auto& entries = dump(r).entries;
                format::fr::Entry entry;
                entry.record_id = static_cast<int64_t>(entries.size());
                entry.collective_seq_id = group.next;
                entry.group = dump(r).groups[lane].name;
                entry.group_desc = dump(r).groups[lane].desc;
                entry.name = text(r, "nccl:" + op);
                entry.state = format::fr::State::kCompleted;
                entry.retired = true;
                entry.duration_ms = (at(r).comm_ns[lane] - starts[i]) * 1e-6;
                entry.time_created_ns = kEpochNs + static_cast<int64_t>(at(r).host_ns);
                const double look_ns = 1e8;
                entry.time_started_ns = kEpochNs + static_cast<int64_t>(std::ceil(starts[i] / look_ns) * look_ns);
                entry.time_completed_ns =
                    kEpochNs + static_cast<int64_t>(std::ceil(at(r).comm_ns[lane] / look_ns) * look_ns);
                entries.push_back(entry);
            }
            ++group.next;
        }
    }

    // Parameters of a layer are gathered while the one before is computed, but not those of the one after it.
    void sharded_step() {
        const double part_ms = options_.compute_ms / options_.layers / 3;
        const auto pass = [&](double ms, bool backward) {
            for (Rank& rank : ranks_) {
                rank.behind_ns.assign(1, rank.compute_ns);
            }
            for (int layer = 0; layer < options_.layers; ++layer) {
                collective(shards_, 0, "_all_gather_base",
                           [&](int r) { return at(r).behind_ns[static_cast<size_t>(std::max(0, layer - 1))]; });
                for (int r = 0; r < options_.ranks; ++r) {
                    compute(r, ms, at(r).comm_ns[0]);
                    at(r).behind_ns.push_back(at(r).compute_ns);
                }
                if (backward) {
                    collective(shards_, 0, "_reduce_scatter_base", [&](int r) { return at(r).compute_ns; });
                    collective(replicas_, 1, "all_reduce", [&](int r) { return at(r).comm_ns[0]; });
                }
            }
        };
        pass(part_ms, false);
        pass(2 * part_ms, true);
        for (Rank& rank : ranks_) {
            rank.compute_ns = std::max({rank.compute_ns, rank.comm_ns[0], rank.comm_ns[1]});
        }
    }

    void tensor_parallel_step() {
        const auto wait_for = [&](size_t lane) {
            for (Rank& rank : ranks_) {
                rank.compute_ns = std::max(rank.compute_ns, rank.comm_ns[lane]);
            }
        };
        for (int layer = 0; layer < 2 * options_.layers; ++layer) {
            for (int r = 0; r < options_.ranks; ++r) {
                compute(r, options_.compute_ms / options_.layers / 2, 0);
            }
            collective(shards_, 0, "all_reduce", [&](int r) { return at(r).compute_ns; });
            wait_for(0);
        }
        collective(replicas_, 1, "all_reduce", [&](int r) { return at(r).compute_ns; });
        wait_for(1);
    }

    FileOptions options_;
    std::mt19937_64 random_;
    std::vector<Rank> ranks_;
    std::vector<format::fr::Dump> dumps_;
    Groups shards_, replicas_;
};

}  // namespace titan::test
