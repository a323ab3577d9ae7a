#include "host/node_rings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/private_dir.h"
#include "base/process.h"

namespace titan {
namespace {

namespace files = std::filesystem;

// The number that begins the text, and is taken from it.
std::optional<uint64_t> take_number(std::string_view& text) {
    uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc()) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return value;
}

template <typename Visit>
void each_name(const std::string& directory, Visit visit) {
    std::error_code failed;
    for (files::directory_iterator item(directory, failed), end; !failed && item != end; item.increment(failed)) {
        visit(item->path().filename().string());
    }
}

void add_of_all_users(const std::string& parent, std::vector<PrivateDir>& found) {
    each_name(parent, [&](const std::string& name) {
        std::string_view rest = name;
        if (!rest.starts_with(kPrivateDirPrefix)) {
            return;
        }
        rest.remove_prefix(std::string_view(kPrivateDirPrefix).size());
        const auto user = take_number(rest);
        if (user && rest.empty() && *user < UINT32_MAX) {
            found.push_back({parent + "/" + name, static_cast<uid_t>(*user)});
        }
    });
}

}  // namespace

std::string chosen_ring_directory(const std::string& chosen) {
    const char* const said = std::getenv("TITANTRACE_RING_DIR");
    return !chosen.empty() || said == nullptr ? chosen : said;
}

RingDirectories ring_directories(const std::string& chosen) {
    if (!chosen.empty()) {
        return {chosen};
    }
    const std::string directory = chosen_ring_directory(chosen);
    RingDirectories found{directory.empty() ? "/dev/shm" : directory};
    if (found.front() != "/tmp") {
        found.emplace_back("/tmp");
    }
    return found;
}

std::vector<PrivateDir> private_directories(const RingDirectories& directories, Users users) {
    std::vector<PrivateDir> found;
    for (const std::string& parent : directories) {
        if (users == Users::kAllForRoot && ::geteuid() == 0) {
            add_of_all_users(parent, found);
        } else {
            found.push_back({parent + "/" + private_dir_name().text, ::geteuid()});
        }
    }
    return found;
}

bool is_trusted(const PrivateDir& directory) {
    struct stat status {};
    return ::lstat(directory.path.c_str(), &status) == 0 && is_private_dir(status, directory.owner);
}

std::vector<std::string> ring_names(const PrivateDir& directory) {
    std::vector<std::string> names;
    each_name(directory.path, [&](std::string name) {
        if (name.ends_with(".ring")) {
            names.push_back(std::move(name));
        }
    });
    std::sort(names.begin(), names.end());
    return names;
}

std::optional<RingOwner> owner_of_ring(const std::string& ring_name) {
    std::string_view rest = ring_name;
    const auto pid = take_number(rest);
    if (!pid || !rest.starts_with('-')) {
        return std::nullopt;
    }
    rest.remove_prefix(1);
    const auto start_ticks = take_number(rest);
    return start_ticks ? std::optional(RingOwner{static_cast<pid_t>(*pid), *start_ticks}) : std::nullopt;
}

std::string unfinished_ring_text(const std::string& ring_name) {
    const std::optional<RingOwner> owner = owner_of_ring(ring_name);
    return owner && process_alive(owner->pid, owner->start_ticks)
               ? "the ring is being made: process " + std::to_string(owner->pid) + " has just started to record"
               : "the ring was never finished: its process ended while it was being set up";
}

}  // namespace titan
