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
#include <tuple>

#include "lines.h"
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
    return level == "WARN" || words.find(" - Abort ") != std::string_view::npos ||
           words.find("Revoke START") != std::string_view::npos;
}

}  // namespace

bool is_nccl_log(const WitnessFile& file) {
    return file.text.find(" NCCL INFO ") != std::string_view::npos ||
           file.text.find(" NCCL WARN ") != std::string_view::npos;
}

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
            said.lost_a_peer = words.find("Connection closed by remote peer") != std::string_view::npos;
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

}  // namespace titan::analyzer
