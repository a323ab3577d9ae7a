// titan-dump: from processes to what became of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "node/processes.h"

namespace titan::tools {

enum class How {
    kAnswered,     // it wrote the dump itself
    kOutside,      // it could not, and titan-dump wrote it
    kSavedBefore,  // it is gone, and another rank wrote it
    kFailed,
};

struct DumpOutcome {
    NodeProcess process;
    How how = How::kFailed;
    std::string path;
    std::string why;  // kOutside: "is stopped"; kFailed: the error
    std::string threads;
    std::string problem;  // problem, although there is a dump
};

struct DumpOptions {
    std::vector<int32_t> pids;
    std::string run;
    int attempt = -1;  // the newest
    double timeout_s = 20;
    double nodes_timeout_s = 60;  // for ranks of other nodes
    std::string directory;        // used for dumps that titan-dump writes
    std::string ring_directory;
    bool list = false;
    bool all = false;  // list what does not live, too
    bool json = false;
};

struct DumpResult {
    std::vector<DumpOutcome> outcomes;             // this node's
    std::map<int32_t, std::string> other_answers;  // paths of what ranks of other nodes wrote
    std::vector<int> unanswered;                   // ranks of other nodes
    std::vector<std::string> problems;
};

// Asks those that can be asked, waits, and does the rest from outside; then waits for the ranks of other nodes, which
// are asked by those of this one. Says on stderr what it waits for.
DumpResult dump_processes(const std::vector<NodeProcess>& processes, bool other_nodes, const DumpOptions& options);

std::string outcome_text(const DumpOutcome& outcome);
std::string result_json(const DumpResult& result);
std::string list_text(const NodeProcesses& found);
std::string list_json(const NodeProcesses& found);

}  // namespace titan::tools
