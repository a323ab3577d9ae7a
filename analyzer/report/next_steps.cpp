// Suggests what to do next, as lines for a shell: commands, each with what it shows as a comment, and advice that the
// records of this run allow, as comments alone.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/words.h"
#include "host_threads.h"
#include "layout.h"
#include "rank_state.h"
#include "report_parts.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

constexpr size_t kAdvisedRanks = 4;
constexpr size_t kLongestOptions = 200;

class Advice {
  public:
    Advice(const Run& run, const Finding& head, const std::string& input) : run_(run), head_(head), input_(input) {}

    std::vector<std::string> write() {
        advise(remedy());
        std::vector<int> with_stacks;
        for (size_t i = 0; i < std::min(head_.ranks.size(), kAdvisedRanks); ++i) {
            if (const Process* process = process_of_rank(run_, head_.ranks[i])) {
                process->source.is_flight_recorder ? by_file(head_.ranks[i], *process)
                                                   : by_pid(head_.ranks[i], *process);
                if (!process->positions.empty()) {
                    with_stacks.push_back(process->rank);
                }
            }
        }
        by_host();
        sort_unique(with_stacks);
        if (head_.hangs && !with_stacks.empty()) {
            command(fmt::format("titan-analyze stacks {} --rank {}{}", input_, rank_ranges(with_stacks),
                                with_stacks.size() > 1 ? " --list" : ""),
                    "every thread");
        }
        if (row_of(head_.kind).clue == Clue::calls) {
            call_sites();
        }
        if (head_.kind == FindingKind::kStraggler || head_.kind == FindingKind::kSlowStep) {
            command(fmt::format("titan-analyze stragglers {}", input_), "what each cause costs");
        }
        if (head_.replay && head_.replay->options.size() < kLongestOptions) {
            command(fmt::format("titan-analyze whatif {} {}", input_, head_.replay->options), "what ends then");
        }
        calls_around_it();
        return std::move(steps_);
    }

  private:
    void command(const std::string& line, const char* shows) { steps_.push_back(fmt::format("{}  # {}", line, shows)); }
    void advise(const std::string& text) { steps_.push_back("# " + text); }

    // The system ends a process without a word; one that exits by itself says why.
    std::string remedy() const {
        const auto left = [&](int rank) {
            const Process* const process = process_of_rank(run_, rank);
            const Testimony* const said = witnessed_end(run_, rank);
            return (process != nullptr && process->liveness == Liveness::kExited) ||
                   (said != nullptr && said->exit_status > 0 && said->signal == 0 && !said->out_of_memory);
        };
        const std::vector<int>& ranks = head_.ranks;
        if (ranks.empty() || !std::ranges::all_of(ranks, left)) {
            return std::string(head_.remedy());
        }
        const std::string whom = ranks_text(ranks);
        if (head_.kind == FindingKind::kRankDead) {
            const auto said = std::ranges::find_if(run_.testimony, [&](const Testimony& one) {
                return one.rank == ranks.front() && !one.message.empty();
            });
            if (said != run_.testimony.end()) {
                return fmt::format("{} ended with an exception: its traceback is in {}", ranks_text({ranks.front()}),
                                   said->file);
            }
            return fmt::format("read what {} wrote to stderr: {} exited with an error, an exception most likely", whom,
                               verb_form(ranks.size(), "it", "they"));
        }
        return head_.kind == FindingKind::kRankNotArrived
                   ? fmt::format("find out why {} left before the others: fewer batches, a break, a call of exit", whom)
                   : std::string(head_.remedy());
    }

    void by_pid(int rank, const Process& process) {
        if (process.liveness != Liveness::kAlive || process.pid == 0) {
            return;
        }
        std::string text =
            fmt::format("rank {} is pid {} on {}", rank, process.pid, process.host.empty() ? "its host" : process.host);
        if (row_of(head_.kind).clue == Clue::place) {
            text += fmt::format(": while it lives, py-spy dump --pid {0} or gdb -p {0}", process.pid);
        }
        advise(text);
    }

    // A Flight Recorder dump holds neither a pid nor stacks of threads.
    void by_file(int rank, const Process& process) {
        std::string text =
            fmt::format("rank {}{}: its calls are in {}", rank,
                        process.host.empty() ? std::string() : " on " + process.host, process.source.label);
        if (head_.hangs && row_of(head_.kind).clue == Clue::place) {
            text += "; to see where it is: py-spy dump on that rank's process";
        }
        advise(text);
    }

    // The node of a rank that left no record may still have its ring.
    void by_host() {
        std::map<std::string, std::vector<int>> ranks_of;
        if (run_.processes.empty() || run_.processes.front().source.is_flight_recorder) {
            return;
        }
        for (size_t i = 0; i < std::min(head_.ranks.size(), kAdvisedRanks); ++i) {
            const int rank = head_.ranks[i];
            const bool missing = std::ranges::find(run_.missing_ranks, rank) != run_.missing_ranks.end();
            if (const std::string host = missing ? likely_host(run_, rank) : std::string(); !host.empty()) {
                ranks_of[host].push_back(rank);
            }
        }
        for (const auto& [host, ranks] : ranks_of) {
            advise(fmt::format("{} left no record: on {}, titan-analyze collect --into dumps/ saves rings",
                               ranks_text(ranks), host));
        }
    }

    void call_sites() {
        const bool foreign = std::ranges::any_of(
            run_.processes, [](const Process& process) { return process.source.is_flight_recorder; });
        const bool known = std::ranges::any_of(run_.processes, [](const Process& process) {
            return std::ranges::any_of(process.entries, [](const Entry& entry) { return entry.site != 0; });
        });
        if (!known) {
            advise(foreign ? "these dumps hold no stack frames (JSON never does; else "
                             "TORCH_INCLUDE_STACK_TRACE=0, or a dump that had no time for them): with them "
                             "the report shows the lines that made the calls"
                           : "TITANTRACE_STACKS=collective next time: then the report shows the lines that "
                             "made the calls");
        }
    }

    // The named ranks and one that waits for them, of those that left calls: as --rank takes them, by process, of which
    // one may be several ranks.
    std::vector<int> compared_ranks() const {
        std::vector<int> ranks;
        const auto add = [&](const std::vector<int>& from, size_t most) {
            for (const int rank : from) {
                const Process* const process = process_of_rank(run_, rank);
                if (most > 0 && process != nullptr && is_member(rank)) {
                    ranks.push_back(process->rank);
                    --most;
                }
            }
        };
        add(head_.ranks, kAdvisedRanks);
        add(head_.victims, 1);
        sort_unique(ranks);
        return ranks;
    }

    bool is_member(int rank) const {
        const std::vector<MemberRef>& members = run_.communicators[head_.communicator].members;
        return std::ranges::any_of(members, [&](MemberRef ref) { return run_.member(ref).global_rank == rank; });
    }

    void calls_around_it() {
        const bool only_digests =
            std::ranges::all_of(run_.processes, [](const Process& process) { return process.source.is_digest; });
        if (head_.communicator == kNoIndex || head_.sequence == kNoSequence || only_digests) {
            return;
        }
        const std::vector<int> ranks = compared_ranks();
        const Communicator& communicator = run_.communicators[head_.communicator];
        std::string line =
            fmt::format("titan-analyze show {} --comm {}", input_,
                        shell_quoted(communicator.name.empty() ? id_text(communicator.id) : communicator.name));
        // The numbers of sends and receives are each rank's own: their newest calls are the ones that wait.
        line += head_.op == "send" || head_.op == "recv"
                    ? std::string(" --last 6")
                    : fmt::format(" --seq {}-{}", head_.sequence > 2 ? head_.sequence - 2 : 0, head_.sequence + 1);
        line += ranks.empty() ? std::string() : " --rank " + rank_ranges(ranks);
        command(line, "the calls around it");
    }

    const Run& run_;
    const Finding& head_;
    const std::string& input_;
    std::vector<std::string> steps_;
};

}  // namespace

std::vector<std::string> next_steps(const Run& run, const Finding& head, const std::string& input) {
    return Advice(run, head, input).write();
}

std::vector<std::string> look_at_a_rank(const Run& run, const std::string& input) {
    if (run.processes.empty()) {
        return {};
    }
    const auto inside = std::ranges::find_if(run.processes, is_inside_a_call);
    const Process& process = inside == run.processes.end() ? run.processes.front() : *inside;
    return {fmt::format("titan-analyze why {} {}  # what that rank does, and what it waits for", process.rank, input)};
}

}  // namespace titan::analyzer
