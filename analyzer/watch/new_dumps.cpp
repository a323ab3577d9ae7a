#include "new_dumps.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/private_dir.h"
#include "file_time.h"
#include "formats/layout/dump_name.h"
#include "run_directory.h"

namespace titan::analyzer {
namespace {

constexpr int kAttemptDepth = 2;  // DIR/RUN/ATTEMPT
constexpr int64_t kRecentNs = int64_t{10} * 60 * 1'000'000'000;
// The time of a directory may not tell two changes apart that come so soon after each other.
constexpr std::chrono::seconds kCoarseTime{3};

bool is_recent(int directory, const std::string& name) {
    struct stat status {};
    return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           static_cast<int64_t>(realtime_now_ns()) - time_ns(status) < kRecentNs;
}

}  // namespace

NewDumps::NewDumps(std::vector<std::string> directories, std::string run)
    : roots_(std::move(directories)), run_(std::move(run)) {}

void NewDumps::look() {
    for (const std::string& root : roots_) {
        std::string path = std::filesystem::absolute(root).lexically_normal();
        if (path.size() > 1 && path.ends_with('/')) {
            path.pop_back();
        }
        look_into(path, 0);
    }
}

// No link below the user's directory. Opened first, because NFS looks at the directory afresh then.
void NewDumps::look_into(const std::string& path, int depth) {
    const Fd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth > 0 ? O_NOFOLLOW : 0)));
    struct stat status {};
    if (!opened.valid() || ::fstat(opened.get(), &status) != 0) {
        known_.erase(path);
        return;
    }
    Directory& directory = known_[path];
    const auto now = WatchClock::now();
    const bool changed = !directory.listed || directory.changed_ns != time_ns(status);
    if (changed) {
        directory.changed_ns = time_ns(status);
        directory.list_until = now + kCoarseTime;
    }
    if (changed || now < directory.list_until) {
        list(opened.get(), path, depth, directory);
        directory.listed = true;
    }
    for (const std::string& below : directory.directories) {
        look_into(path + "/" + below, depth + 1);
    }
}

void NewDumps::list(int opened, const std::string& path, int depth, Directory& directory) {
    std::vector<std::string> directories;
    std::set<std::string> dumps;
    each_entry(opened, [&](const char* name) {
        const bool hidden = *name == '.';  // not whole yet
        if (format::is_dump_name(name) && !hidden) {
            dumps.insert(name);
        } else if (depth < kAttemptDepth && !hidden) {
            const Fd below(::openat(opened, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (below.valid()) {
                directories.emplace_back(name);
            }
        }
        return true;
    });
    for (const std::string& name : dumps) {
        if (!directory.dumps.contains(name) && (directory.listed || is_recent(opened, name))) {
            add(path, name);
        }
    }
    directory.directories = std::move(directories);
    directory.dumps = std::move(dumps);
}

void NewDumps::add(const std::string& path, const std::string& name) {
    const std::string file = path + "/" + name;
    const RunDirectory names(file);
    if (names.attempt.empty() || (!run_.empty() && names.run != run_)) {
        return;
    }
    const std::string directory = std::filesystem::path(path).parent_path();
    Arrivals& arrivals = arrivals_[directory];
    arrivals.directory = directory;
    arrivals.run = names.run;
    arrivals.files.push_back(file);
    arrivals.processes.insert(name.substr(0, name.find('.')));
    arrivals.attempts.insert(names.attempt);
    arrivals.newest_at = WatchClock::now();
}

}  // namespace titan::analyzer
