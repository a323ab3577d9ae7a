#include "host/presence.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "base/process.h"

namespace titan {
namespace {

// The tracer's thread moves the heartbeat about once a second.
constexpr int64_t kSilentNs = 30'000'000'000;

std::string read_text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string read_proc(pid_t pid, const char* what) { return read_text("/proc/" + std::to_string(pid) + "/" + what); }

}  // namespace

const char* presence_text(Presence presence) {
    switch (presence) {
        case Presence::kRunning: return "running";
        case Presence::kStopped: return "stopped";
        case Presence::kZombie: return "zombie";
        case Presence::kGone: return "dead";
        case Presence::kElsewhere: return "elsewhere";
        case Presence::kUnknown: break;
    }
    return "unknown";
}

Presence presence_of(const ProcessIdentity& process, int64_t silent_ns) {
    if (process.boot_id != read_boot_id().text) {
        return Presence::kUnknown;
    }
    if (process.pid_namespace != pid_namespace_inode()) {
        return silent_ns > kSilentNs ? Presence::kGone : Presence::kElsewhere;
    }
    ProcessStat stat{};
    if (!read_process_stat(process.pid, stat) || stat.start_ticks != process.start_ticks) {
        return Presence::kGone;
    }
    if (is_over(stat)) {
        return Presence::kZombie;
    }
    return halt_of_process(process.pid) != Halt::kNone ? Presence::kStopped : Presence::kRunning;
}

std::string halt_text(Halt halt) {
    switch (halt) {
        case Halt::kStopped: return "stopped (SIGSTOP, job control or scontrol suspend)";
        case Halt::kTraced: return "stopped by a debugger";
        case Halt::kFrozen: return "frozen (cgroup freezer)";
        case Halt::kSilent: return "not running (stopped, or without a processor)";
        case Halt::kNone: break;
    }
    return {};
}

std::string_view halt_name(Halt halt) {
    static constexpr std::string_view kNames[] = {"", "stopped", "traced", "frozen", "silent"};
    return kNames[static_cast<size_t>(halt)];
}

Halt halt_named(std::string_view name) {
    for (const Halt halt : {Halt::kStopped, Halt::kTraced, Halt::kFrozen, Halt::kSilent}) {
        if (name == halt_name(halt)) {
            return halt;
        }
    }
    return Halt::kNone;
}

Halt halt_of(char state, std::string_view wait_channel) {
    return state == 'T'   ? Halt::kStopped
           : state == 't' ? Halt::kTraced
           : wait_channel.find("freezer") != std::string_view::npos ||
                   wait_channel.find("refrigerator") != std::string_view::npos
               ? Halt::kFrozen
               : Halt::kNone;
}

Halt halt_of_process(pid_t pid) {
    ProcessStat stat{};
    if (!read_process_stat(pid, stat)) {
        return Halt::kNone;
    }
    const Halt halt = halt_of(stat.state, read_proc(pid, "wchan"));
    return halt == Halt::kNone && is_frozen(read_proc(pid, "cgroup"), "/sys/fs/cgroup") ? Halt::kFrozen : halt;
}

// "0::/slurm/job_17" of version 2, "6:freezer:/slurm/job_17" of version 1.
bool is_frozen(std::string_view groups, const std::string& root) {
    std::istringstream lines{std::string(groups)};
    for (std::string line; std::getline(lines, line);) {
        const size_t name = line.find(':');
        const size_t path = name == std::string::npos ? name : line.find(':', name + 1);
        if (path == std::string::npos) {
            continue;
        }
        const std::string group = line.substr(path + 1);
        const std::string controllers = line.substr(name + 1, path - name - 1);
        if (controllers == "freezer" && read_text(root + "/freezer" + group + "/freezer.state").starts_with("FROZEN")) {
            return true;
        }
        for (const char* mount : {"", "/unified"}) {
            if (controllers.empty() &&
                read_text(root + mount + group + "/cgroup.events").find("frozen 1") != std::string::npos) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace titan
