#include "node/proc.h"

#include <pwd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tracer/process_stat.h"

namespace titan::tools {
namespace {

std::string in_proc(pid_t pid, const char* what) { return "/proc/" + std::to_string(pid) + "/" + what; }

// The effective user. The owner of /proc/PID would be root's where the process may not be dumped.
bool read_user(pid_t pid, uid_t& user) {
    std::ifstream status(in_proc(pid, "status"));
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("Uid:")) {
            std::istringstream fields(line.substr(4));
            uid_t real = 0;
            return static_cast<bool>(fields >> real >> user);
        }
    }
    return false;
}

void read_maps(pid_t pid, ProcView& view) {
    std::ifstream maps(in_proc(pid, "maps"));
    for (std::string line; std::getline(maps, line);) {
        view.readable = true;
        const size_t slash = line.find('/');
        if (slash == std::string::npos) {
            continue;
        }
        const std::string path = line.substr(slash);
        if (path.ends_with(".ring") && path.find("/titantrace-") != std::string::npos) {
            view.ring_path = path;
        }
        view.has_tracer = view.has_tracer || path.find("libtitantrace") != std::string::npos;
    }
}

bool has_watch_thread(pid_t pid) {
    std::error_code failed;
    namespace files = std::filesystem;
    for (files::directory_iterator task(in_proc(pid, "task"), failed), end; !failed && task != end;
         task.increment(failed)) {
        std::ifstream comm(task->path() / "comm");
        std::string name;
        if (std::getline(comm, name) && name == "titan-watch") {
            return true;
        }
    }
    return false;
}

}  // namespace

ProcView look_at(pid_t pid) {
    ProcView view;
    tracer::ProcessStat stat{};
    view.exists = tracer::read_process_stat(pid, stat) && read_user(pid, view.user);
    if (view.exists) {
        view.is_zombie = stat.state == 'Z' || stat.state == 'X';
        read_maps(pid, view);
        view.records = has_watch_thread(pid);
    }
    return view;
}

std::vector<std::string> environment_of(pid_t pid) {
    std::ifstream file(in_proc(pid, "environ"), std::ios::binary);
    std::vector<std::string> variables;
    for (std::string variable; std::getline(file, variable, '\0');) {
        variables.push_back(variable);
    }
    return variables;
}

std::string user_name(uid_t user) {
    const passwd* const known = ::getpwuid(user);
    return known != nullptr ? known->pw_name : std::to_string(user);
}

}  // namespace titan::tools
