// Which statements are of this run: logs of earlier jobs lie beside the dumps, too.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/text.h"
#include "analyzer/witnessed.h"

namespace titan::analyzer {
namespace {

// Clocks of two hosts, and a time that was cut to seconds.
constexpr int64_t kTolerableNs = 5'000'000'000;

// "node-3.cluster.example" and "node-3" are one.
std::string_view short_name(std::string_view host) { return host.substr(0, host.find('.')); }

bool same_host(const Testimony& said, const Process& process) {
    return said.host.empty() || process.host.empty() || short_name(said.host) == short_name(process.host);
}

// When the first thing of this run is known to have happened, 0 unknown.
int64_t begin_ns(const Run& run) {
    int64_t begin = INT64_MAX;
    for (const Process& process : run.processes) {
        const int64_t first = process.started_ns > 0     ? process.started_ns
                              : !process.entries.empty() ? process.entries.front().entered_ns
                                                         : 0;
        begin = first > 0 ? std::min(begin, first) : begin;
    }
    return begin == INT64_MAX ? 0 : begin;
}

class OfThisRun {
  public:
    explicit OfThisRun(const Run& run) : run_(run), begin_ns_(begin_ns(run)) {
        for (const Process& process : run.processes) {
            if (process.rank >= 0) {
                of_rank_[process.rank] = &process;
            }
        }
    }

    void name_rank(Testimony& said) const {
        if (said.rank >= 0 || said.pid <= 0) {
            return;
        }
        for (const auto& [rank, process] : of_rank_) {
            if (process->pid == said.pid && same_host(said, *process)) {
                said.rank = rank;
            }
        }
    }

    bool contradicts(const Testimony& said) const {
        if ((said.attempt >= 0 && said.attempt != run_.attempt) ||
            (said.time_ns != 0 && said.time_ns + kTolerableNs < begin_ns_)) {
            return true;
        }
        const auto process = of_rank_.find(said.rank);
        return process != of_rank_.end() && said.pid > 0 && process->second->pid > 0 &&
               process->second->pid != said.pid;
    }

  private:
    const Run& run_;
    int64_t begin_ns_ = 0;
    std::map<int32_t, const Process*> of_rank_;
};

}  // namespace

void keep_of_this_run(Run& run) {
    const OfThisRun judge(run);
    std::set<std::string> others;  // files: a log is of one job
    for (Testimony& said : run.testimony) {
        judge.name_rank(said);
        if (judge.contradicts(said)) {
            others.insert(said.file);
        }
    }
    std::erase_if(run.testimony, [&](const Testimony& said) { return others.contains(said.file); });
    if (!others.empty()) {
        run.warnings.push_back(
            {"other_run",
             {},
             fmt::format("{}{} not used: {} of another job or attempt", *others.begin(),
                         others.size() == 1 ? " is" : fmt::format(" and {} more are", others.size() - 1),
                         others.size() == 1 ? "it is" : "they are")});
    }
}

}  // namespace titan::analyzer
