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
// Times have no zone, so they are kept as text. Once one process has failed torchrun ends the others, says so ("Sending
// process 4712 closing signal SIGTERM") and lists them as failures, too: those come after. Where several others were
// found at one look, "first observed" is no more than the lowest rank of them.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "host/json_value.h"
#include "readers.h"
#include "tracebacks.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kRootCause = "Root Cause (first observed failure):";

// The content of one "[N]:".
struct TorchrunFailure {
    Testimony said;
    std::string time;
    bool root = false;
    bool in_traceback = false;
};

// "rank      : 2 (local_rank: 2)" -> "rank", "2 (local_rank: 2)".
bool split_field(std::string_view line, std::string_view& name, std::string_view& value) {
    value = line;
    const auto before = take_until(value, ":");
    name = before ? without_spaces(*before) : std::string_view();
    value = without_spaces(value);
    return before.has_value();
}

// srun --label puts the task before each line: "0:   rank      : 2 (local_rank: 2)".
std::string_view without_label(std::string_view line) {
    const size_t digits = line.find_first_not_of(" 0123456789");
    return digits != 0 && digits != std::string_view::npos && line.substr(digits, 2) == ": " ? line.substr(digits + 2)
                                                                                             : line;
}

// "[0]:", and not "[default0]:" before an empty line of a rank.
bool is_number_of_failure(std::string_view line) {
    return line.starts_with("[") && line.find_first_not_of("0123456789", 1) == line.size() - 2 && line.ends_with("]:");
}

// Parses "2026-11-22_08:27:52"; 0 for anything else.
int64_t wall_seconds(const std::string& text) {
    std::tm time{};
    std::istringstream in(text);
    in >> std::get_time(&time, "%Y-%m-%d_%H:%M:%S");
    return in.fail() || time.tm_year < 100 || time.tm_year > 300 ? 0 : std::max<int64_t>(0, ::timegm(&time));
}

void read_exit(std::string_view value, Testimony& said) {
    const std::optional<int32_t> code = take_number(value);
    if (take_until(value, "(pid: ")) {
        said.pid = take_number(value).value_or(0);
    }
    said.signal = code ? signal_of_status(*code) : 0;
    said.exit_status = code && *code > 0 ? *code : -1;
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
        failure.said.rank = take_rank(value);
        if (take_until(value, "local_rank: ")) {
            failure.said.local_rank = take_rank(value);
        }
    } else if (name == "exitcode") {
        read_exit(value, failure.said);
    } else if (name == "error_file") {
        failure.said.error_file = value;
    } else if (name == "traceback") {
        failure.in_traceback = value.starts_with("Traceback (most recent call last):");
    }
}

// Its last line is the exception: "RuntimeError: ...".
void read_traceback_line(std::string_view line, TorchrunFailure& failure) {
    constexpr size_t kMaxMessageBytes = 400;
    const std::string_view text = without_spaces(line);
    if (text.find_first_not_of("-=") == std::string_view::npos) {
        failure.in_traceback = failure.in_traceback && text.empty();
    } else {
        failure.said.message = text.substr(0, kMaxMessageBytes);
    }
}

// The traceback that a failed process wrote into the same log; null where none tells whose it is.
const Traceback* traceback_of(const std::vector<Traceback>& all, const Testimony& said, bool alone) {
    const auto of_it = [&](const Traceback& one) {
        return one.rank >= 0         ? one.rank == said.rank
               : one.local_rank >= 0 ? one.local_rank == said.local_rank
                                     : alone && said.exit_status > 0;
    };
    const Traceback* found = nullptr;
    for (const Traceback& one : all) {
        if (of_it(one)) {
            const bool is_bare = one.rank < 0 && one.local_rank < 0;
            if (found != nullptr && is_bare && found->message != one.message) {
                return nullptr;  // one of them is of another process, or was caught
            }
            found = &one;
        }
    }
    return found;
}

}  // namespace

bool is_torchrun_log(const WitnessFile& file) { return has(file.text, kRootCause); }

void read_torchrun_log(const WitnessFile& file, std::vector<Testimony>& into) {
    std::set<int32_t> ended_by_it;
    std::vector<TorchrunFailure> failures;
    bool root = false;
    bool in_list = false;
    int32_t part = 0;
    Lines lines(file.text);
    for (std::string_view line; lines.next(line) && failures.size() < kMaxTestimonies;) {
        line = without_label(line);
        const std::string_view trimmed = without_spaces(line);
        std::string_view rest = line;
        if (take_until(rest, "Sending process ") || take_until(rest, "Closing process ")) {
            ended_by_it.insert(take_number(rest).value_or(0));
        } else if (trimmed.ends_with(kRootCause)) {
            root = true;
        } else if (trimmed == "Failures:") {
            ++part;
        } else if (is_number_of_failure(trimmed)) {
            failures.emplace_back().root = root;
            failures.back().said.part = part;
            root = false;
            in_list = true;
        } else if (trimmed.starts_with("======") && !failures.empty()) {
            in_list = false;
        } else if (in_list && failures.back().in_traceback) {
            read_traceback_line(line, failures.back());
        } else if (in_list) {
            read_failure_field(line, failures.back());
        }
    }
    const auto is_ended_by_torchrun = [&](const TorchrunFailure& failure) {
        return ended_by_it.contains(failure.said.pid) ||
               (ended_by_it.empty() && !failure.root && failure.said.signal == SIGTERM);
    };
    std::map<int32_t, size_t> own_ends;  // key: part
    for (const TorchrunFailure& failure : failures) {
        own_ends[failure.said.part] += is_ended_by_torchrun(failure) ? 0 : 1;
    }
    const std::vector<Traceback> tracebacks = failures.empty() ? std::vector<Traceback>() : tracebacks_in(file.text);
    for (TorchrunFailure& failure : failures) {
        Testimony& said = failure.said;
        if (said.rank < 0 || (said.signal == 0 && said.exit_status < 0)) {
            continue;
        }
        said.claim = Claim::kEnded;
        const bool after = is_ended_by_torchrun(failure);
        said.order = after                                      ? EndOrder::kAfterOthers
                     : failure.root && own_ends[said.part] == 1 ? EndOrder::kFirst
                                                                : EndOrder::kUnknown;
        said.wall_s = wall_seconds(failure.time);
        std::string where;
        if (const Traceback* own = after ? nullptr : traceback_of(tracebacks, said, own_ends[said.part] == 1)) {
            said.message = said.message.empty() ? own->message : said.message;
            where = own->place.empty() ? "" : ", at " + own->place;
        }
        const char* const place = after                            ? ", ended by torchrun"
                                  : said.order == EndOrder::kFirst ? ", first of all"
                                                                   : "";
        said.text = fmt::format("rank {} (pid {} on {}): {}{}{}{}{}", said.rank, said.pid, said.host, ending_text(said),
                                failure.time.empty() ? "" : " at " + failure.time,
                                said.message.empty() ? "" : ", " + said.message, where, place);
        into.push_back(std::move(said));
    }
}

// --- The error file that torchrun gives each worker (TORCHELASTIC_ERROR_FILE):
// LOG_DIR/RUN_SUFFIX/attempt_N/LOCAL_RANK/error.json. PyTorch's
// @record writes it:
//
//   {"message": {"message": "RuntimeError: ...", "extraInfo": {"py_callstack": "Traceback ...", "timestamp":
//   "1795336072"}}}
//
// Only the path tells whose it is, by its rank on its node; torchrun's own log names the file and so the rank.

namespace {

constexpr size_t kMaxErrorFileBytes = size_t{1} << 20;
constexpr size_t kMaxMessageBytes = 400;

// attempt_0/2/error.json; the local rank is that of the job where one node runs all of it.
void read_place(const std::string& path, Testimony& said) {
    const std::filesystem::path file(path);
    const std::string rank = file.parent_path().filename().string();
    const std::string attempt = file.parent_path().parent_path().filename().string();
    std::string_view digits = rank;
    said.local_rank = take_rank(digits);
    digits = attempt;
    if (take_until(digits, "attempt_")) {
        said.attempt = take_rank(digits);
    }
}

std::string string_at(const Json& object, const char* name) { return std::string(object.at(name).text().value_or("")); }

}  // namespace

bool is_error_file(const WitnessFile& file) {
    return file.text.size() < kMaxErrorFileBytes &&
           without_spaces(file.text.substr(0, 64)).starts_with("{\"message\":");
}

void read_error_file(const WitnessFile& file, std::vector<Testimony>& into) {
    const std::optional<Json> json = Json::parse(file.text);
    if (!json) {
        return;
    }
    const Json& message = json->at("message");
    Testimony said;
    said.claim = Claim::kEnded;
    std::string where;
    std::string time = string_at(*json, "timestamp");
    if (message.is_object()) {
        said.message = string_at(message, "message");
        const Json& extra = message.at("extraInfo");
        time = string_at(extra, "timestamp");
        where = place_in_traceback(string_at(extra, "py_callstack"));
        const std::optional<int64_t> code = message.at("errorCode").integer();
        said.signal = code ? signal_of_status(*code) : 0;
    } else {
        said.message = message.text().value_or("");
    }
    said.message = said.message.substr(0, said.message.find('\n')).substr(0, kMaxMessageBytes);
    if (said.message.empty()) {
        return;
    }
    std::string_view digits = time;
    const auto seconds = take_number(digits);
    said.time_ns = seconds && *seconds > 0 ? int64_t{*seconds} * 1'000'000'000 : 0;
    read_place(file.path, said);
    said.text = fmt::format("{}{}{}", said.message, where.empty() ? "" : ", at ", where);
    into.push_back(std::move(said));
}

}  // namespace titan::analyzer
