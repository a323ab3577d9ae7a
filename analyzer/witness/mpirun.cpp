// The message of Open MPI's mpirun about the first process that failed, before it ends the others:
//
//   mpirun noticed that process rank 2 with PID 0 on node node-3 exited on signal 9 (Killed).
//
// or, for an exit status:
//
//   mpirun detected that one or more processes exited with non-zero status, thus causing
//   the job to be terminated. The first process to do so was:
//
//     Process name: [[61422,1],2]
//     Exit code:    3
#include <fmt/format.h>

#include "lines.h"
#include "readers.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kOnSignal = "noticed that process rank ";
constexpr std::string_view kFirstToExit = "The first process to do so was:";

void read_signal_line(std::string_view line, std::vector<Testimony>& into) {
    Testimony said;
    if (!take_until(line, kOnSignal)) {
        return;
    }
    said.rank = take_rank(line);
    if (take_until(line, " with PID ")) {
        said.pid = take_number(line).value_or(0);
    }
    if (take_until(line, " on node ")) {
        said.host = line.substr(0, line.find(' '));
    }
    if (said.rank < 0 || !take_until(line, " exited on signal ")) {
        return;
    }
    said.signal = signal_of(take_number(line).value_or(0));
    if (said.signal != 0) {
        into.push_back(std::move(said));
    }
}

}  // namespace

bool is_mpirun_log(const WitnessFile& file) {
    return file.text.find(kOnSignal) != std::string_view::npos ||
           file.text.find(kFirstToExit) != std::string_view::npos;
}

void read_mpirun_log(const WitnessFile& file, std::vector<Testimony>& into) {
    const size_t before = into.size();
    Lines lines(file.text);
    Testimony exited;
    bool first_to_exit = false;
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        read_signal_line(line, into);
        first_to_exit = first_to_exit || line.find(kFirstToExit) != std::string_view::npos;
        std::string_view rest = line;
        if (first_to_exit && take_until(rest, "Process name: [[") && take_until(rest, "],")) {
            exited.rank = take_rank(rest);
        } else if (first_to_exit && take_until(rest, "Exit code:")) {
            rest = without_spaces(rest);
            exited.exit_status = take_number(rest).value_or(-1);
            if (exited.rank >= 0 && exited.exit_status > 0) {
                into.push_back(exited);
            }
            first_to_exit = false;
        }
    }
    for (size_t i = before; i < into.size(); ++i) {
        into[i].claim = Claim::kEnded;
        into[i].order = EndOrder::kFirst;
        into[i].text = fmt::format("rank {}: {}, first of all", into[i].rank, ending_text(into[i]));
    }
}

}  // namespace titan::analyzer
