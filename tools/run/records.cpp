#include "run/records.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/process.h"
#include "host/node_rings.h"
#include "host/words.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;

constexpr int64_t kNsPerSecond = 1'000'000'000;
// The smallest ring that is of use, and a dump with its stacks.
constexpr uint64_t kLeastRoomBytes = uint64_t{2} << 20;
constexpr uint64_t kLeastDumpBytes = uint64_t{8} << 20;

// 0: there is none.
int64_t changed_ns(const files::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec : 0;
}

// File systems give times of a coarse clock.
int64_t file_clock_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

template <typename Visit>
void each_entry_of(const files::path& directory, Visit visit) {
    std::error_code failed;
    for (files::directory_iterator item(directory, failed), end; !failed && item != end; item.increment(failed)) {
        visit(item->path());
    }
}

std::string trouble_with(const std::string& directory, uint64_t least_bytes, const char* setting) {
    files::path there = directory;
    std::error_code failed;
    while (!files::exists(there, failed) && there.has_relative_path()) {
        there = there.parent_path();
    }
    const std::string name = printable(directory);
    if (::access(there.c_str(), W_OK | X_OK) != 0) {
        return fmt::format("{} cannot be written ({}); set {} to a directory that can", name, std::strerror(errno),
                           setting);
    }
    struct statvfs room {};
    if (::statvfs(there.c_str(), &room) == 0 && room.f_blocks != 0 && room.f_bavail * room.f_frsize < least_bytes) {
        return fmt::format("{} has only {} kB free; make room or set {}", name, room.f_bavail * room.f_frsize / 1024,
                           setting);
    }
    return "";
}

}  // namespace

Records::Records(std::string dump_directory, std::string ring_directory)
    : dumps_(std::move(dump_directory)),
      rings_(std::move(ring_directory)),
      started_ns_(file_clock_ns()),
      started_ticks_(process_start_ticks(::getpid())),
      rings_changed_(newest_change_of_rings()) {}

int64_t Records::newest_change_of_rings() const {
    int64_t newest = 0;
    for (const PrivateDir& directory : private_directories(ring_directories(rings_), Users::kThis)) {
        newest = std::max(newest, changed_ns(directory.path));
    }
    return newest;
}

std::string Records::run_with_new_dumps() const {
    std::string newest_run;
    int64_t newest_ns = started_ns_ - 1;
    each_entry_of(dumps_, [&](const files::path& run) {
        each_entry_of(run, [&](const files::path& attempt) {
            each_entry_of(attempt, [&](const files::path& file) {
                if (const int64_t at = changed_ns(file); file.extension() == ".titan" && at > newest_ns) {
                    newest_ns = at;
                    newest_run = run.filename();
                }
            });
        });
    });
    return newest_run;
}

bool Records::has_new_rings() const {
    for (const PrivateDir& directory : private_directories(ring_directories(rings_), Users::kThis)) {
        for (const std::string& name : is_trusted(directory) ? ring_names(directory) : std::vector<std::string>()) {
            const auto owner = owner_of_ring(name);
            if (owner && owner->start_ticks >= started_ticks_) {
                return true;
            }
        }
    }
    return false;
}

bool Records::anything_recorded() const { return newest_change_of_rings() != rings_changed_; }

std::string trouble_with_dumps(const std::string& directory) {
    return trouble_with(directory, kLeastDumpBytes, "TITANTRACE_DIR");
}
std::string trouble_with_rings(const std::string& directory) {
    return trouble_with(directory, kLeastRoomBytes, "TITANTRACE_RING_DIR");
}

}  // namespace titan::tools
