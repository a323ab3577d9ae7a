#include "node/proc.h"

#include <fcntl.h>

#include <fstream>
#include <string_view>

#include "base/maps.h"
#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"
#include "host/this_host.h"

namespace titan::tools {
namespace {

std::string in_proc(pid_t pid, const char* what) { return "/proc/" + std::to_string(pid) + "/" + what; }

void read_maps(pid_t pid, ProcView& view) {
    std::vector<char> room(8192);
    MapsReader maps(pid, room.data(), room.size());
    for (Mapping mapping; maps.next(mapping);) {
        view.readable = true;
        const std::string_view path = mapping.path;
        if (path.starts_with('/') && path.ends_with(".ring") && path.find("/titantrace-") != std::string_view::npos) {
            view.ring_path = path;
        }
        view.has_tracer = view.has_tracer || path.find("libtitantrace") != std::string_view::npos;
    }
}

bool has_watch_thread(pid_t pid) {
    const Fd tasks(::open(in_proc(pid, "task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bool found = false;
    auto is_other = [&](const char* tid) {
        char name[20];
        read_small_file(tasks.get(), (std::string(tid) + "/comm").c_str(), name, sizeof(name));
        found = same_text(name, "titan-watch");
        return !found;
    };
    return tasks.valid() && each_entry(tasks.get(), is_other) && found;
}

}  // namespace

ProcView look_at(pid_t pid) {
    ProcView view;
    ProcessStat stat{};
    view.exists = read_process_stat(pid, stat) && read_process_user(pid, view.user);
    if (view.exists) {
        view.is_zombie = is_over(stat);
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
    const std::optional<User> known = known_user(user);
    return known ? known->name : std::to_string(user);
}

}  // namespace titan::tools
