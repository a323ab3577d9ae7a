// A job of PyTorch process groups, as the Flight Recorder files that it leaves, without files: calls are added rank by
// rank, in the order of each rank's program; the verdict is over what their dumps would say.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "finding.h"
#include "formats/fr/read.h"
#include "fr_file.h"
#include "fr_groups.h"
#include "fr_process.h"

namespace titan::test {

// What a file says of a call.
struct FrCall {
    std::string name;  // "all_reduce"; of a send or receive, what its rank does
    std::string state = "completed";
    uint64_t elements = 1024;
    std::string datatype = "Float";
    bool retired = false;
    int64_t took_ms = 5;
};

class FrJob {
  public:
    static constexpr int64_t kEpochMs = 1'700'000'000'000;
    static constexpr int64_t kTimeoutMs = 600'000;

    explicit FrJob(int ranks) : ranks_(static_cast<size_t>(ranks)) {
        std::vector<int> all;
        for (int rank = 0; rank < ranks; ++rank) {
            all.push_back(rank);
        }
        group("world", "default_pg", all);
    }

    void group(const std::string& name, const std::string& description, const std::vector<int>& ranks) {
        groups_[name] = {description, ranks};
    }

    // A collective of one rank; its sequence number is the next of that rank in the group.
    void call(int rank, const std::string& group, FrCall call) {
        Rank& own = at(rank);
        call.name = "nccl:" + call.name;
        add(own, group, call, ++own.collectives[group], own.p2p[group], false);
    }

    // Peers are ranks of the group.
    void send(int rank, const std::string& group, int peer, FrCall call) {
        call.name = fmt::format("nccl:send {}->{}", place(group, rank), peer);
        pair(rank, group, call);
    }
    void receive(int rank, const std::string& group, int peer, FrCall call) {
        call.name = fmt::format("nccl:recv {}<-{}", place(group, rank), peer);
        pair(rank, group, call);
    }

    // As nccl2 writes it: a call's start is noted with its end.
    void note_starts_with_ends() { starts_with_ends_ = true; }
    void pass_ms(int rank, int64_t ms) { at(rank).now_ms += ms; }
    // The ring has overwritten the oldest entries of that rank.
    void forget(int rank, size_t entries) {
        auto& kept = at(rank).entries;
        kept.erase(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(entries));
    }
    void leave_out_file(int rank) { at(rank).file_ms = -1; }
    // When the file was written, from the start of the job.
    void write_file_at_ms(int rank, int64_t ms) { at(rank).file_ms = ms; }
    analyzer::Run records() const {
        analyzer::Run run;
        analyzer::GroupRanks groups;
        for (size_t rank = 0; rank < ranks_.size(); ++rank) {
            if (ranks_[rank].file_ms >= 0) {
                const auto dump = dump_of(static_cast<int>(rank));
                run.processes.push_back(analyzer::process_of_dump(
                    dump, static_cast<int>(rank), (kEpochMs + ranks_[rank].file_ms) * 1'000'000, groups));
            }
        }
        analyzer::complete_flight_recorder(run, groups);
        return run;
    }

  private:
    // A dump looks at the state of unfinished calls when it is made, and notes that moment.
    static constexpr std::string_view kFileTime = "(when the file is written)";

    struct Group {
        std::string description;
        std::vector<int> ranks;
    };
    struct Rank {
        std::vector<std::string> entries;
        std::map<std::string, int> collectives, p2p;
        int records = 0;
        int64_t now_ms = 1000;
        int64_t file_ms = 700'000;
    };

    Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

    int place(const std::string& group, int rank) const {
        const auto& members = groups_.at(group).ranks;
        return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
    }

    void pair(int rank, const std::string& group, const FrCall& call) {
        Rank& own = at(rank);
        add(own, group, call, own.collectives[group], ++own.p2p[group], true);
    }

    void add(Rank& rank, const std::string& group, const FrCall& call, int collective, int p2p, bool is_p2p) {
        rank.now_ms += 10;
        const int64_t created_ns = (kEpochMs + rank.now_ms) * 1'000'000;
        const bool done = call.state == "completed";
        const int64_t done_ns = created_ns + call.took_ms * 1'000'000;
        const std::string started_too =
            starts_with_ends_ ? fmt::format(R"(, "time_discovered_started_ns": {})", done_ns) : std::string();
        rank.entries.push_back(fmt::format(
            R"({{"record_id": {}, "process_group": ["{}", "{}"], "profiling_name": "{}", "collective_seq_id": {}, )"
            R"("p2p_seq_id": {}, "time_created_ns": {}, "input_sizes": [[{}]], "input_dtypes": ["{}"], )"
            R"("output_sizes": [[{}]], "output_dtypes": ["{}"], "state": "{}", "retired": {}, "timeout_ms": {}, )"
            R"("is_p2p": {}, "frames": [{{"name": "step", "filename": "/job/train.py", "line": 212}}]{}{}}})",
            rank.records++, group, groups_.at(group).description, call.name, collective, p2p, created_ns, call.elements,
            call.datatype, call.elements, call.datatype, call.state, done || call.retired, kTimeoutMs, is_p2p,
            done ? fmt::format(R"(, "time_discovered_completed_ns": {})", done_ns) + started_too : "",
            call.state == "started" ? fmt::format(R"(, "time_discovered_started_ns": {})", kFileTime) : ""));
    }

    // A process knows only the groups that it is in.
    format::fr::Dump dump_of(int rank) const {
        std::string groups;
        for (const auto& [name, group] : groups_) {
            if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end()) {
                continue;
            }
            groups +=
                fmt::format(R"({}"{}": {{"name": "{}", "desc": "{}", "ranks": "[{}]"}})", groups.empty() ? "" : ", ",
                            name, name, group.description, fmt::join(group.ranks, ", "));
        }
        const Rank& own = ranks_[static_cast<size_t>(rank)];
        std::string entries = fmt::format("{}", fmt::join(own.entries, ","));
        const std::string file_time = std::to_string((kEpochMs + own.file_ms) * 1'000'000);
        for (size_t at = entries.find(kFileTime); at != std::string::npos; at = entries.find(kFileTime, at)) {
            entries.replace(at, kFileTime.size(), file_time);
        }
        const std::string text =
            fmt::format(R"({{"version": "2.10", "pg_config": {{{}}}, "entries": [{}]}})", groups, entries);
        format::fr::Tree tree;
        REQUIRE(!format::fr::read_json(std::as_bytes(std::span(text)), tree));
        auto dump = format::fr::to_dump(tree, text.size());
        REQUIRE_MESSAGE(dump, (dump ? "" : dump.error().text()));
        return std::move(*dump);
    }

    std::map<std::string, Group> groups_;
    std::vector<Rank> ranks_;
    bool starts_with_ends_ = false;
};

}  // namespace titan::test
