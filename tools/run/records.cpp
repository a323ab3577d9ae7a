#include "run/records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/fd.h"
#include "base/process.h"
#include "formats/layout/dump_name.h"
#include "formats/layout/journal_layout.h"
#include "host/node_rings.h"
#include "host/words.h"
#include "run/patience.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;

constexpr int64_t kNsPerSecond = 1'000'000'000;
// The smallest ring that is of use, and a dump with its stacks.
constexpr uint64_t kLeastRoomBytes = uint64_t{2} << 20;
constexpr uint64_t kLeastDumpBytes = uint64_t{8} << 20;

// Time of the directory's last change; 0: there is none. Opened first, because NFS refreshes it then.
int64_t changed_ns(const files::path& path) {
    const Fd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    return ::fstat(opened.get(), &status) == 0 ? status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec : 0;
}

template <typename Visit>
void each_entry_of(const files::path& directory, Visit visit) {
    std::error_code failed;
    for (files::directory_iterator item(directory, failed), end; !failed && item != end; item.increment(failed)) {
        visit(item->path());
    }
}

// A line for each attempt of each run, with the time of its last change: that of the file server, which may not be
// ours.
std::string list_attempts(const std::string& dumps) {
    std::string lines;
    each_entry_of(dumps, [&](const files::path& run) {
        each_entry_of(run, [&](const files::path& attempt) {
            if (const int64_t at = changed_ns(attempt); at != 0) {
                lines += fmt::format("{:020} {}\n", at, attempt.string());
            }
        });
    });
    return lines;
}

std::optional<std::set<std::string>> attempts_in_time(const std::string& dumps) {
    const std::optional<std::string> lines = answer_in_time([&] { return list_attempts(dumps); });
    std::set<std::string> attempts;
    std::istringstream rest(lines.value_or(""));
    for (std::string line; std::getline(rest, line);) {
        attempts.insert(line);
    }
    return lines ? std::optional(attempts) : std::nullopt;
}

// Tried, not asked for: root may write everywhere, but not to /proc, nor where a file server takes it for nobody. In
// containers of several nodes processes have the same ids: the name is random.
bool takes_files(const files::path& directory) {
    std::string trial = directory / ".titan-run.XXXXXX";
    return ::mkdtemp(trial.data()) != nullptr && ::rmdir(trial.c_str()) == 0;
}

std::string trouble_with(const std::string& directory, uint64_t least_bytes, const char* setting) {
    files::path there = directory;
    std::error_code failed;
    while (!files::exists(there, failed) && there.has_relative_path()) {
        there = there.parent_path();
    }
    const std::string name = printable(directory);
    if (!takes_files(there)) {
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
      attempts_(attempts_in_time(dumps_)),
      started_ticks_(process_start_ticks(::getpid())),
      rings_changed_(newest_change_of_rings()) {}

int64_t Records::newest_change_of_rings() const {
    int64_t newest = 0;
    for (const PrivateDir& directory : private_directories(ring_directories(rings_), Users::kThis)) {
        newest = std::max(newest, changed_ns(directory.path));
    }
    return newest;
}

Records::NewFiles Records::new_files() const {
    const std::set<std::string> now =
        attempts_ ? attempts_in_time(dumps_).value_or(*attempts_) : std::set<std::string>();
    for (auto line = now.rbegin(); line != now.rend(); ++line) {
        if (attempts_->contains(*line)) {
            continue;
        }
        const files::path attempt = line->substr(line->find(' ') + 1);
        NewFiles found{attempt.parent_path().filename()};
        each_entry_of(attempt, [&](const files::path& file) {
            found.dumps += format::is_dump_name(file.native()) ? 1 : 0;
            found.journals += file.native().ends_with(format::kJournalSuffix) ? 1 : 0;
        });
        if (found.dumps + found.journals != 0) {
            return found;
        }
    }
    return {};
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

bool answers(const std::string& directory) {
    struct stat status {};
    return answer_in_time([&] { return std::to_string(::stat(directory.c_str(), &status)); }).has_value();
}

std::string trouble_with_dumps(const std::string& directory) {
    return answer_in_time([&] { return trouble_with(directory, kLeastDumpBytes, "TITANTRACE_DIR"); })
        .value_or(printable(directory) + " does not answer; dumps wait until it does");
}
std::string trouble_with_rings(const std::string& directory) {
    return trouble_with(directory, kLeastRoomBytes, "TITANTRACE_RING_DIR");
}

}  // namespace titan::tools
