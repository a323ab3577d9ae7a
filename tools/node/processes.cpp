#include "node/processes.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "formats/ring/ring_image.h"
#include "formats/ring/ring_process.h"
#include "host/words.h"
#include "node/proc.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;
using format::RingHeader;

// Directories of this user; root sees all users'.
std::vector<PrivateDir> directories_of(const std::string& ring_directory) {
    return private_directories(ring_directories(ring_directory), Users::kAllForRoot);
}

Result<NodeProcess> read_process(const PrivateDir& directory, const std::string& name) {
    const Result<OwnedFile> file = OwnedFile::open(directory, name, OwnedFile::For::kReading);
    if (!file) {
        return file.error();
    }
    NodeProcess process;
    process.directory = directory;
    process.ring_name = name;
    RingHeader& header = process.header;
    const std::string path = directory.path + "/" + name;
    const size_t got_bytes = file->read_at(0, &header, sizeof(header));
    if (header.magic == 0) {
        return Error(unfinished_ring_text(name)).within(path);
    }
    if (got_bytes != sizeof(header)) {
        return Error("too short for a ring").within(path);
    }
    if (header.magic != format::kRingMagic || header.endian_tag != format::kEndianTag) {
        return Error("not a ring, or damaged").within(path);
    }
    if (header.major != format::kRingMajor) {
        return Error("a ring of another titantrace; use that one's tools").within(path);
    }
    process.presence = format::presence_of(header);
    process.heartbeat_age_ns =
        process.presence == Presence::kUnknown ? 0 : std::max<int64_t>(0, format::heartbeat_age_ns(header));
    return process;
}

auto order_of(const NodeProcess& process) {
    return std::tuple(process.run(), process.header.attempt, process.header.rank, process.header.pid);
}

std::string why_not_found(int32_t pid, const ProcView& view) {
    if (!view.exists) {
        return fmt::format("there is no process {}, and it left no ring on this node", pid);
    }
    if (view.user != ::geteuid() && ::geteuid() != 0) {
        return fmt::format("process {} belongs to user {}: only that user and root may ask it", pid,
                           user_name(view.user));
    }
    if (!view.readable) {
        return fmt::format("cannot tell whether process {} is traced (/proc/{}/maps is not readable): {}", pid, pid,
                           ::geteuid() == 0 ? "even root is refused; it may be a kernel thread, or in another container"
                                            : "run titan-dump as root");
    }
    if (!view.ring_path.empty()) {
        return fmt::format("process {} keeps its ring in {}, which is not here: run titan-dump in its container", pid,
                           printable(view.ring_path));
    }
    if (!view.has_tracer) {
        return fmt::format("process {} is not traced: it has not loaded libtitantrace.so (start it with LD_PRELOAD)",
                           pid);
    }
    if (!view.records) {
        return fmt::format(
            "process {} has loaded titantrace, but records nothing: it has not used NCCL yet, or TITANTRACE or "
            "TITANTRACE_RANKS leave it out",
            pid);
    }
    return fmt::format(
        "process {} keeps its ring in private memory, where no other process can reach it (no room in "
        "TITANTRACE_RING_DIR?): "
        "ask it with kill -USR1 {}",
        pid, pid);
}

// The ring at the path that the process itself has mapped.
std::optional<NodeProcess> at_mapped_path(int32_t pid, const ProcView& view) {
    const files::path path(view.ring_path);
    PrivateDir directory{path.parent_path().string(), view.user};
    const Result<NodeProcess> process = read_process(directory, path.filename().string());
    return process && process->header.pid == pid ? std::optional(*process) : std::nullopt;
}

}  // namespace

std::string NodeProcess::run() const { return printable(format::fixed_text(header.run)); }

std::string NodeProcess::text() const {
    return header.rank >= 0 ? fmt::format("rank {} (pid {})", header.rank, header.pid)
                            : fmt::format("pid {}", header.pid);
}

NodeProcesses find_processes(const std::string& ring_directory) {
    NodeProcesses found;
    for (const PrivateDir& directory : directories_of(ring_directory)) {
        struct stat status {};
        if (::lstat(directory.path.c_str(), &status) != 0) {
            continue;
        }
        if (!is_trusted(directory)) {
            found.problems.push_back(fmt::format("{} is not a private directory of user {}: not looked into",
                                                 printable(directory.path), directory.owner));
            continue;
        }
        for (const std::string& name : ring_names(directory)) {
            Result<NodeProcess> process = read_process(directory, name);
            if (process) {
                found.processes.push_back(std::move(*process));
            } else {
                found.problems.push_back(printable(process.error().text()));
            }
        }
    }
    std::sort(found.processes.begin(), found.processes.end(),
              [](const NodeProcess& a, const NodeProcess& b) { return order_of(a) < order_of(b); });
    return found;
}

void leave_out_earlier(std::vector<NodeProcess>& processes) {
    // Ranks of one attempt start within minutes of each other.
    constexpr uint64_t kSameAttemptNs = 600ull * 1'000'000'000;
    using Attempt = std::pair<std::string, int32_t>;
    std::map<Attempt, uint64_t> newest_start_ns;
    std::map<std::pair<Attempt, int32_t>, uint64_t> newest_of_rank;
    const auto attempt_of = [](const NodeProcess& process) { return Attempt(process.run(), process.header.attempt); };
    const auto weight_of = [](const NodeProcess& process) {
        return process.is_gone() ? process.header.last_anchor.realtime_ns : UINT64_MAX;
    };
    for (const NodeProcess& process : processes) {
        uint64_t& start_ns = newest_start_ns[attempt_of(process)];
        start_ns = std::max(start_ns, process.header.first_anchor.realtime_ns);
        uint64_t& newest = newest_of_rank[{attempt_of(process), process.header.rank}];
        newest = std::max(newest, weight_of(process));
    }
    std::erase_if(processes, [&](const NodeProcess& process) {
        const uint64_t last_ns = process.header.last_anchor.realtime_ns;
        const uint64_t start_ns = newest_start_ns[attempt_of(process)];
        const bool earlier = last_ns < start_ns && start_ns - last_ns > kSameAttemptNs;
        const bool replaced =
            process.header.rank >= 0 && weight_of(process) < newest_of_rank[{attempt_of(process), process.header.rank}];
        return process.is_gone() && (earlier || replaced);
    });
}

Result<NodeProcess> find_process(int32_t pid, const std::string& ring_directory) {
    const ProcView view = look_at(pid);
    if (view.exists && !view.ring_path.empty()) {
        if (auto process = at_mapped_path(pid, view)) {
            return *process;
        }
    }
    std::optional<NodeProcess> best;
    const std::string start = std::to_string(pid) + "-";
    std::string problem;
    for (const PrivateDir& directory : directories_of(ring_directory)) {
        for (const std::string& name : is_trusted(directory) ? ring_names(directory) : std::vector<std::string>()) {
            if (!name.starts_with(start)) {
                continue;
            }
            const Result<NodeProcess> process = read_process(directory, name);
            if (!process) {
                problem = printable(process.error().text());
            } else if (process->header.pid == pid && (!view.exists || view.is_zombie || !process->is_gone()) &&
                       (!best || process->header.last_anchor.realtime_ns > best->header.last_anchor.realtime_ns)) {
                best = *process;
            }
        }
    }
    if (best) {
        return *best;
    }
    return Error(problem.empty() ? why_not_found(pid, view) : problem);
}

}  // namespace titan::tools
