#include "process_check.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "formats/ring_image.h"

namespace titan::analyzer {
namespace {

// The tracer's thread moves the heartbeat about once a second.
constexpr int64_t kSilentNs = 30'000'000'000;

std::string boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

std::string read_text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string read_proc(int32_t pid, const char* what) { return read_text("/proc/" + std::to_string(pid) + "/" + what); }

// Of the main thread; empty where there is no such process.
std::string state_of(int32_t pid) {
    const std::string text = read_proc(pid, "stat");
    const size_t close = text.rfind(')');
    return close == std::string::npos || close + 2 >= text.size() ? std::string() : text.substr(close + 2, 1);
}

// Field 22 of /proc/PID/stat, 0 where there is no such process or it is a zombie.
uint64_t start_ticks(int32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t close = text.rfind(')');  // the name in brackets may hold anything
    if (close == std::string::npos) {
        return 0;
    }
    std::istringstream fields(text.substr(close + 1));
    std::string state;
    fields >> state;
    std::string skipped;
    for (int field = 4; field < 22; ++field) {
        fields >> skipped;
    }
    uint64_t ticks = 0;
    fields >> ticks;
    return state == "Z" || state == "X" ? 0 : ticks;
}

}  // namespace

uint64_t own_pid_namespace() {
    struct stat status {};
    return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

Halt halt_of(char state, std::string_view wait_channel) {
    return state == 'T'   ? Halt::kStopped
           : state == 't' ? Halt::kTraced
           : wait_channel.find("freezer") != std::string_view::npos ||
                   wait_channel.find("refrigerator") != std::string_view::npos
               ? Halt::kFrozen
               : Halt::kNone;
}

Halt halt_of_process(const format::RingHeader& header) {
    if (header.pid <= 0 || header.pid_namespace != own_pid_namespace()) {
        return Halt::kNone;
    }
    const std::string state = state_of(header.pid);
    if (state.empty()) {
        return Halt::kNone;
    }
    const Halt halt = halt_of(state.front(), read_proc(header.pid, "wchan"));
    return halt == Halt::kNone && is_frozen(read_proc(header.pid, "cgroup"), "/sys/fs/cgroup") ? Halt::kFrozen : halt;
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

Liveness dead_how(const format::RingHeader& header) {
    switch (header.state) {
        case format::ProcessState::kExited: return Liveness::kExited;
        case format::ProcessState::kCrashed: return Liveness::kCrashed;
        default: return Liveness::kKilled;
    }
}

ProcessPresence check_process(const format::RingHeader& header, const format::RingClock& clock) {
    if (format::fixed_text(header.boot_id) != boot_id()) {
        return ProcessPresence::kUnknown;
    }
    if (header.pid_namespace == own_pid_namespace()) {
        return header.pid > 0 && start_ticks(header.pid) == header.pid_start_ticks ? ProcessPresence::kAlive
                                                                                   : ProcessPresence::kGone;
    }
    // Another container on this machine: its pid means nothing here, but its heart does.
    return clock.span_ns(header.heartbeat_ticks, clock.ticks_now()) > kSilentNs ? ProcessPresence::kGone
                                                                                : ProcessPresence::kAlive;
}

}  // namespace titan::analyzer
