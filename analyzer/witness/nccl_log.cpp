// NCCL's own log (NCCL_DEBUG=INFO or WARN), with or without time stamps and the launcher's prefixes:
//
//   node-3:4711:4790 [2] NCCL INFO ncclCommInitRankConfig comm 0x55d rank 3 nranks 8 cudaDev 2 ... - Init COMPLETE
//   node-3:4711:4790 [2] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node-4<43210>
//   node-3:4711:4790 [2] NCCL INFO comm 0x55d rank 3 nranks 8 cudaDev 2 busId 3b000 - Abort COMPLETE
//
// A process that lost its connection to another lives; the other one, of which the log names the node only, may not.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "host/json_value.h"
#include "host/words.h"
#include "readers.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostOfOne = 4;  // warnings of one process: the first tell why, later ones follow from them
constexpr size_t kMostWords = 300;

struct LoggedProcess {
    int32_t comm_rank = -1;
    int32_t comm_size = -1;
    size_t told = 0;
};

// "node-3:4711:4790": host, pid and thread, somewhere among what a launcher puts before it.
bool take_speaker(std::string_view before, Testimony& said) {
    while (!before.empty()) {
        const size_t end = std::min(before.find(' '), before.size());
        std::string_view word = before.substr(0, end);
        before.remove_prefix(std::min(end + 1, before.size()));
        const auto host = take_until(word, ":");
        const auto pid = take_number(word);
        const bool thread = word.starts_with(":") && word.size() > 1 && word[1] >= '0' && word[1] <= '9';
        if (host && !host->empty() && pid && *pid > 0 && thread) {
            said.host = *host;
            said.pid = *pid;
            return true;
        }
    }
    return false;
}

// "comm 0x55d rank 3 nranks 8": of the largest communicator of a process.
void note_rank(std::string_view words, LoggedProcess& process) {
    if (!take_until(words, "comm 0x") || !take_until(words, " rank ")) {
        return;
    }
    const int32_t rank = take_rank(words);
    if (!words.starts_with(" nranks ") && !words.starts_with(" nRanks ")) {
        return;
    }
    words.remove_prefix(8);
    const int32_t size = take_rank(words);
    if (rank >= 0 && rank < size && size > process.comm_size) {
        process.comm_rank = rank;
        process.comm_size = size;
    }
}

bool says_much(std::string_view level, std::string_view words) {
    return level == "WARN" || has(words, " - Abort ") || has(words, "Revoke START");
}

}  // namespace

bool is_nccl_log(const WitnessFile& file) { return has(file.text, " NCCL INFO ") || has(file.text, " NCCL WARN "); }

void read_nccl_log(const WitnessFile& file, std::vector<Testimony>& into) {
    std::map<std::pair<std::string, int32_t>, LoggedProcess> processes;
    const size_t first = into.size();
    Lines lines(file.text);
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        const auto before = take_until(line, " NCCL ");
        Testimony said;
        const std::string_view level = line.substr(0, 4);
        if (!before || (level != "INFO" && level != "WARN") || !take_speaker(*before, said)) {
            continue;
        }
        const std::string_view words = without_spaces(line.substr(4)).substr(0, kMostWords);
        LoggedProcess& process = processes[{said.host, said.pid}];
        note_rank(words, process);
        if (says_much(level, words) && process.told++ < kMostOfOne) {
            said.lost_a_peer = has(words, "Connection closed by remote peer");
            said.text = fmt::format("pid {} on {}: {}{}", said.pid, said.host, level == "WARN" ? "WARN " : "", words);
            into.push_back(std::move(said));
        }
    }
    for (size_t i = first; i < into.size(); ++i) {
        const LoggedProcess& process = processes[{into[i].host, into[i].pid}];
        into[i].comm_rank = process.comm_rank;
        into[i].comm_size = process.comm_size;
    }
    // Adds the ranks that logged no error: if only one rank of a job has not lost a peer, it may be that peer.
    for (const auto& [name, process] : processes) {
        if (process.told == 0 && process.comm_rank >= 0 && into.size() < kMaxTestimonies) {
            Testimony said;
            std::tie(said.host, said.pid) = name;
            said.comm_rank = process.comm_rank;
            said.comm_size = process.comm_size;
            said.text = fmt::format("pid {} on {} logs no warning and no abort", said.pid, said.host);
            into.push_back(std::move(said));
        }
    }
}

// --- NCCL's RAS subsystem, asked while the job ran: `ncclras -v` (text) and `ncclras -f Json`. It tells which
// processes do not answer, which it considers dead, which communicators have errors, and how many collectives of a kind
// each rank has launched. Ranks are those of the communicator; nodes are addresses, which no record has.

namespace {

constexpr size_t kMostOdd = 8;  // lagging ranks of one communicator
constexpr int32_t kMostErrors = 64;
constexpr int32_t kInProgress = 7;  // ncclInProgress

int32_t int_at(const Json& object, const char* key, int32_t otherwise) {
    const int64_t value = object.at(key).integer().value_or(-1);
    return value < 0 || value > INT32_MAX ? otherwise : static_cast<int32_t>(value);
}

bool true_at(const Json& object, const char* key) { return object.at(key).boolean().value_or(false); }

std::string ras_text_at(const Json& object, const char* key) {
    constexpr size_t kMostBytes = 128;
    return std::string(object.at(key).text().value_or("").substr(0, kMostBytes));
}

Testimony member_of(const Json& rank, int32_t size) {
    Testimony said;
    said.comm_rank = plausible_rank(int_at(rank, "rank", -1));
    said.comm_size = size;
    said.pid = int_at(rank, "pid", 0);
    return said;
}

// "rank 3 of 8 (communicator 0x1f2, pid 4711 on 10.0.0.7)"
std::string who(const Testimony& said, std::string_view communicator, std::string_view node) {
    return fmt::format("rank {} of {} (communicator {}{}{})", said.comm_rank, said.comm_size, communicator,
                       said.pid > 0 ? fmt::format(", pid {}", said.pid) : "",
                       node.empty() ? "" : fmt::format(" on {}", node));
}

void read_missing(const Json& communicator, const std::string& hash, int32_t size, std::vector<Testimony>& into) {
    for (const Json& rank : communicator.at("missing_ranks").items()) {
        if (!rank.is_object()) {
            continue;
        }
        Testimony said = member_of(rank, size);
        const Json& status = rank.at("status");
        said.claim = Claim::kSilent;
        said.considered_dead = true_at(status, "considered_dead");
        said.text = fmt::format("{} {}", who(said, hash, ras_text_at(rank, "host")),
                                said.considered_dead              ? "is considered dead: RAS cannot reach it"
                                : true_at(status, "unresponsive") ? "does not answer"
                                                                  : "is missing");
        into.push_back(std::move(said));
    }
}

void read_status(const Json& rank, const std::string& hash, int32_t size, std::vector<Testimony>& into) {
    const Json& status = rank.at("status");
    const int32_t async_error = int_at(status, "async_error", 0);
    const int32_t init_state = int_at(status, "init_state", 0);
    const auto is_error = [](int32_t code) { return code > 0 && code != kInProgress && code < kMostErrors; };
    if (!is_error(async_error) && !is_error(init_state) && !true_at(status, "abort_flag")) {
        return;
    }
    Testimony said = member_of(rank, size);
    said.text =
        fmt::format("{} {}", who(said, hash, ras_text_at(rank, "host")),
                    is_error(async_error)  ? fmt::format("has the asynchronous error {} of ncclResult_t", async_error)
                    : is_error(init_state) ? fmt::format("failed to initialize: {} of ncclResult_t", init_state)
                                           : "aborts");
    into.push_back(std::move(said));
}

// Few that have launched less, or more, than all others.
void read_counts(const Json& communicator, const std::string& hash, int32_t size, std::vector<Testimony>& into) {
    std::map<std::string, std::map<uint64_t, std::vector<const Json*>>> of_operation;
    for (const Json& rank : communicator.at("ranks").items()) {
        const Json& counts = rank.at("collective_counts");
        for (size_t i = 0; i < counts.keys().size(); ++i) {
            if (const std::optional<uint64_t> count = counts.items()[i].natural()) {
                of_operation[counts.keys()[i].substr(0, 32)][*count].push_back(&rank);
            }
        }
    }
    for (const auto& [name, counts] : of_operation) {
        const auto most = std::ranges::max_element(
            counts, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
        size_t told = 0;
        for (const auto& [count, ranks] : counts) {
            for (const Json* rank : ranks) {
                if (count == most->first || ranks.size() * 2 > most->second.size() || told++ >= kMostOdd) {
                    continue;
                }
                Testimony said = member_of(*rank, size);
                said.text =
                    fmt::format("{} has launched {} {}, {} others {}", who(said, hash, ras_text_at(*rank, "host")),
                                grouped_digits(count), name, most->second.size(), grouped_digits(most->first));
                into.push_back(std::move(said));
            }
        }
    }
}

void read_communicator(const Json& communicator, std::vector<Testimony>& into) {
    if (!communicator.is_object()) {
        return;
    }
    const std::string hash = ras_text_at(communicator, "hash");
    const int32_t size = plausible_rank(int_at(communicator, "size", -1));
    read_missing(communicator, hash, size, into);
    for (const Json& rank : communicator.at("ranks").items()) {
        if (rank.is_object()) {
            read_status(rank, hash, size, into);
        }
    }
    read_counts(communicator, hash, size, into);
}

// The text form.

// "  Rank 4 -- GPU 4 managed by process 1681860 on node 172.16.64.212", "  Rank 0 has launched up to operation 6649 --
// GPU 0 managed by
// ...", "  Process 1681860 on node 172.16.64.212 managing GPU 4".
struct RasLine {
    int32_t rank = -1;
    std::string_view does;  // "has launched up to operation 6649"
    int32_t pid = 0;
    std::string_view node;
};

std::optional<RasLine> ras_line(std::string_view line) {
    RasLine found;
    line = without_spaces(line);
    if (line.starts_with("Rank ")) {
        line.remove_prefix(5);
        found.rank = take_rank(line);
        const auto does = take_until(line, "--");
        if (found.rank < 0 || !does) {
            return std::nullopt;
        }
        found.does = without_spaces(*does);
        if (!take_until(line, "process ")) {
            return found;  // "[process information not found]"
        }
    } else if (line.starts_with("Process ")) {
        line.remove_prefix(8);
    } else {
        return std::nullopt;
    }
    found.pid = take_number(line).value_or(0);
    if (take_until(line, " on node ")) {
        found.node = line.substr(0, line.find(' '));
    }
    return found;
}

// The subject of the lines below a heading.
struct RasPart {
    std::string communicator;  // empty: processes
    std::string_view what;     // "INCOMPLETE", "DEAD", "MISMATCH", "ERROR"
    std::string about;         // "Communicator ranks have different AllReduce operation counts"
    std::string many;          // "7 ranks have launched up to operation 42"
    int32_t size = -1;
};

// "#0-0 (27a079b828ff1a75) MISMATCH"
bool begins_communicator(std::string_view line, RasPart& part, const std::map<int32_t, int32_t>& size_of_group) {
    if (!line.starts_with("#")) {
        return false;
    }
    line.remove_prefix(1);
    const std::optional<int32_t> group = take_number(line);
    const auto numbers = take_until(line, "(");
    const auto hash = numbers ? take_until(line, ") ") : std::nullopt;
    if (!group || !hash) {
        return false;
    }
    const auto size = size_of_group.find(*group);
    part = RasPart();
    part.communicator = "0x" + std::string(hash->substr(0, 16));
    part.size = size == size_of_group.end() ? -1 : size->second;
    part.what = line;
    return true;
}

// A row of the summary: group, communicators in it, nodes, ranks per node, ranks per communicator, ...
void read_group(std::string_view line, std::map<int32_t, int32_t>& size_of_group) {
    std::vector<int32_t> columns;
    line = without_spaces(line);
    while (const auto number = take_number(line)) {
        columns.push_back(*number);
        if (line.starts_with("-")) {  // "7-8" ranks per node
            line = line.substr(std::min(line.find(' '), line.size()));
        }
        line = without_spaces(line);
    }
    if (columns.size() == 6 && has(line, "  ")) {
        size_of_group[columns[0]] = plausible_rank(columns[4]);
    }
}

Testimony said_by(const RasLine& line, const RasPart& part) {
    Testimony said;
    said.comm_rank = line.rank;
    said.comm_size = line.rank < 0 ? -1 : part.size;
    said.pid = line.pid;
    const std::string subject =
        line.rank >= 0
            ? fmt::format("rank {}{} (communicator {}{}{})", line.rank,
                          part.size > 0 ? fmt::format(" of {}", part.size) : "", part.communicator,
                          line.pid > 0 ? fmt::format(", pid {}", line.pid) : "",
                          line.node.empty() ? "" : fmt::format(" on {}", line.node))
            : fmt::format("process {}{}", line.pid, line.node.empty() ? "" : fmt::format(" on {}", line.node));
    said.considered_dead = part.what == "DEAD";
    if (said.considered_dead || part.what == "INCOMPLETE") {
        said.claim = Claim::kSilent;
        said.text = subject + (said.considered_dead ? " is considered dead: RAS cannot reach it" : " does not answer");
    } else {
        said.text = fmt::format("{} {}", subject, line.does.empty() ? "is listed under: " + part.about : line.does);
        said.text += line.does.empty() || part.many.empty() ? "" : "; " + part.many;
    }
    return said;
}

// "The missing ranks: 21,23"
void read_missing_ranks(std::string_view line, const RasPart& part, std::vector<Testimony>& into) {
    take_until(line, ": ");
    for (RasLine missing; into.size() < kMaxTestimonies; line.remove_prefix(1)) {
        missing.rank = take_rank(line);
        if (missing.rank >= 0) {
            into.push_back(said_by(missing, part));
        }
        if (!line.starts_with(",")) {
            return;
        }
    }
}

}  // namespace

bool is_ras_json(const WitnessFile& file) {
    return has(file.text, "\"communicators\"") && has(file.text, "\"secondary_hash\"");
}

void read_ras_json(const WitnessFile& file, std::vector<Testimony>& into) {
    const std::optional<Json> whole = Json::parse(file.text);
    if (!whole || !whole->is_object()) {
        Testimony said;
        said.claim = Claim::kUnread;
        said.text = "its JSON is cut off or damaged, or too large: not read";
        into.push_back(std::move(said));
        return;
    }
    for (const Json& communicator : whole->at("communicators").items()) {
        if (into.size() < kMaxTestimonies) {
            read_communicator(communicator, into);
        }
    }
}

bool is_ras_text(const WitnessFile& file) {
    return has(file.text, "PEER_DEAD: Process ") || has(file.text, "(unreachable via the RAS network)") ||
           (has(file.text, "Communicators...") && has(file.text, "Job summary"));
}

void read_ras_text(const WitnessFile& file, std::vector<Testimony>& into) {
    std::map<int32_t, int32_t> size_of_group;
    RasPart part;
    Lines lines(file.text);
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        const std::string_view trimmed = without_spaces(line);
        if (line == "DEAD" || line == "INCOMPLETE") {
            part = RasPart();
            part.what = line;
        } else if (trimmed.empty() || begins_communicator(line, part, size_of_group)) {
            continue;
        } else if (std::string_view dead = line; take_until(dead, "PEER_DEAD: ")) {  // ncclras -m
            if (const auto found = ras_line(dead)) {
                RasPart event;
                event.what = "DEAD";
                into.push_back(said_by(*found, event));
            }
        } else if (trimmed.starts_with("The missing rank") && part.what == "INCOMPLETE") {  // versions before 2.26
            read_missing_ranks(trimmed, part, into);
        } else if (const auto found = ras_line(line)) {
            if (!part.what.empty()) {
                into.push_back(said_by(*found, part));
            }
        } else if (line.starts_with("  ") && has(trimmed, " ranks have ") && trimmed.front() >= '0' &&
                   trimmed.front() <= '9') {
            // The many come first; a few are named one by one under a line of their own.
            part.many = part.many.empty() ? std::string(trimmed) : part.many;
            part.about = trimmed;
        } else if (line.starts_with("  ") && !part.communicator.empty()) {
            part.about = trimmed;
            part.many.clear();
        } else {
            read_group(line, size_of_group);
        }
    }
}

}  // namespace titan::analyzer
