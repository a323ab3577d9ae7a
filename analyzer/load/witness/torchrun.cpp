// torchrun's report of failed processes, in its own log:
//
//   Root Cause (first observed failure):
//   [0]:
//     time      : 2026-11-22_08:27:52
//     host      : node-3
//     rank      : 2 (local_rank: 2)
//     exitcode  : -9 (pid: 4711) (SIGKILL)
//     error_file: <N/A>
//     traceback : Signal 9 (SIGKILL) received by PID 4711
//
// Times have no zone, so they are kept as text. Once one process has failed torchrun ends the others, says so ("Sending process 4712
// closing signal SIGTERM") and lists them as failures, too: those come after. "First" is the first in the list among those that
// were found at one look, which is no order of theirs.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "analyzer/text.h"
#include "lines.h"
#include "readers.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kRootCause = "Root Cause (first observed failure):";

// What one "[N]:" holds.
struct TorchrunFailure {
    Testimony said;
    std::string time;
    bool root = false;
};

// "rank      : 2 (local_rank: 2)" -> "rank", "2 (local_rank: 2)".
bool split_field(std::string_view line, std::string_view& name, std::string_view& value) {
    value = line;
    const auto before = take_until(value, ":");
    name = before ? without_spaces(*before) : std::string_view();
    value = without_spaces(value);
    return before.has_value();
}

void read_exit(std::string_view value, Testimony& said) {
    const std::optional<int32_t> code = take_number(value);
    if (take_until(value, "(pid: ")) {
        said.pid = take_number(value).value_or(0);
    }
    if (code && *code < 0 && *code > -NSIG) {
        said.signal = -*code;
    } else if (code && *code > 0) {
        said.exit_status = *code;
    }
}

void read_failure_field(std::string_view line, TorchrunFailure& failure) {
    std::string_view name;
    std::string_view value;
    if (!split_field(line, name, value)) {
        return;
    }
    if (name == "time") {
        failure.time = value;
    } else if (name == "host") {
        failure.said.host = value;
    } else if (name == "rank") {
        failure.said.rank = plausible_rank(take_number(value).value_or(-1));
    } else if (name == "exitcode") {
        read_exit(value, failure.said);
    }
}

}  // namespace

bool is_torchrun_log(const WitnessFile& file) { return file.text.find(kRootCause) != std::string_view::npos; }

void read_torchrun_log(const WitnessFile& file, std::vector<Testimony>& into) {
    std::set<int32_t> ended_by_it;
    std::vector<TorchrunFailure> failures;
    bool root = false;
    Lines lines(file.text);
    for (std::string_view line; lines.next(line) && failures.size() < kMaxTestimonies;) {
        const std::string_view trimmed = without_spaces(line);
        std::string_view rest = line;
        if (take_until(rest, "Sending process ") || take_until(rest, "Closing process ")) {
            ended_by_it.insert(take_number(rest).value_or(0));
        } else if (trimmed.ends_with(kRootCause)) {
            root = true;
        } else if (trimmed.starts_with("[") && trimmed.ends_with("]:")) {
            failures.emplace_back().root = root;
            root = false;
        } else if (!failures.empty()) {
            read_failure_field(line, failures.back());
        }
    }
    for (TorchrunFailure& failure : failures) {
        Testimony& said = failure.said;
        if (said.rank < 0 || (said.signal == 0 && said.exit_status < 0)) {
            continue;
        }
        said.claim = Claim::kEnded;
        said.order = ended_by_it.contains(said.pid) ? EndOrder::kAfterOthers
                     : failure.root                 ? EndOrder::kFirst
                                                    : EndOrder::kUnknown;
        said.text = fmt::format("rank {} (pid {} on {}) ended with exit code {}{}", said.rank, said.pid, said.host,
                                said.signal != 0 ? -said.signal : said.exit_status,
                                failure.time.empty() ? "" : " at " + failure.time);
        into.push_back(std::move(said));
    }
}

}  // namespace titan::analyzer
