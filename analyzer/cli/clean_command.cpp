// titan-analyze clean: removes what jobs that ended left behind.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "commands.h"
#include "formats/dump_layout.h"
#include "host/words.h"
#include "load.h"
#include "rings.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;

constexpr double kNsPerDay = 86400e9;

struct CleanArguments {
    CommonOptions common;
    double older_than_days = -1;
    bool dry_run = false;
};

class Cleaner {
  public:
    explicit Cleaner(const CleanArguments& arguments) : arguments_(arguments) {}

    int run() {
        const RingDirectories directories = ring_directories(arguments_.common.ring_directory);
        const std::vector<NodeRing> rings = list_rings(directories);
        for (const NodeRing& ring : rings) {
            if (ring.problem.empty() && ring.liveness == Liveness::kAlive) {
                living_.insert({ring.run, std::to_string(ring.attempt)});
            }
        }
        if (!arguments_.common.no_rings) {
            clean_rings(rings);
        }
        if (!arguments_.common.paths.empty()) {
            const auto discovery = discover(arguments_.common.paths);
            if (!discovery) {
                return fail(discovery.error().text());
            }
            for (const CandidateGroup& group : discovery->groups) {
                clean_dumps(group);
            }
        }
        print("{} {} file{}, {:.1f} MB\n", arguments_.dry_run ? "would remove" : "removed", count_,
              count_ == 1 ? "" : "s", static_cast<double>(bytes_) / 1e6);
        return failed_ ? kExitUnusable : kExitHealthy;
    }

  private:
    bool is_wanted(const std::string& run, int64_t age_ns) const {
        return (arguments_.common.run.empty() || arguments_.common.run == run) &&
               static_cast<double>(age_ns) >= arguments_.older_than_days * kNsPerDay;
    }

    // A ring that cannot be read may be one in the making, and of one from another machine nobody knows whether it lives.
    void clean_rings(const std::vector<NodeRing>& rings) {
        for (const NodeRing& ring : rings) {
            const bool dead =
                ring.problem.empty() && ring.liveness != Liveness::kAlive && ring.liveness != Liveness::kUnknown;
            if (dead && is_wanted(ring.run, ring.age_ns)) {
                remove(ring.path, ring.size_bytes);
            }
        }
    }

    void clean_dumps(const CandidateGroup& group) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
        if (living_.contains({group.run, group.attempt}) || !is_wanted(group.run, now_ns - group.newest_ns)) {
            return;
        }
        std::set<files::path> directories;
        for (const Candidate& file : group.files) {
            if (file.path.ends_with(".titan") && !file.is_archive && !file.is_flight_recorder) {
                remove(file.path, file.size_bytes);
                directories.insert(file.directory);
            }
        }
        if (!arguments_.dry_run && !group.attempt.empty()) {
            for (const files::path& directory : directories) {
                remove_empty(directory);
            }
        }
    }

    // With what else we write into the directory of a run; what others put there keeps it.
    static void remove_empty(const files::path& attempt) {
        std::error_code failed;
        files::remove(attempt, failed);
        if (const files::path run = attempt.parent_path(); holds_only_ours(run)) {
            files::remove(run / format::kReadmeName, failed);
            files::remove(run / format::kDumpRequestName, failed);
            files::remove(run, failed);
        }
    }

    static bool holds_only_ours(const files::path& run) {
        std::error_code failed;
        for (files::directory_iterator item(run, failed), end; !failed && item != end; item.increment(failed)) {
            const files::path name = item->path().filename();
            if (name != format::kReadmeName && name != format::kDumpRequestName) {
                return false;
            }
        }
        return !failed;
    }

    void remove(const std::string& path, uint64_t size_bytes) {
        std::error_code failed;
        if (!arguments_.dry_run && !files::remove(path, failed)) {
            say("titan-analyze: {} cannot be removed: {}\n", printable(path), failed.message());
            failed_ = true;
            return;
        }
        print("{}\n", printable(path));
        ++count_;
        bytes_ += size_bytes;
    }

    const CleanArguments& arguments_;
    std::set<std::pair<std::string, std::string>> living_;  // run, attempt
    size_t count_ = 0;
    uint64_t bytes_ = 0;
    bool failed_ = false;
};

}  // namespace

Command clean_command(CommandLine& app) {
    const auto arguments = std::make_shared<CleanArguments>();
    CommandLine& command =
        app.command("clean", "Remove rings and dumps of jobs that ended.",
                    "examples:\n"
                    "  titan-analyze clean --older-than 7                 rings on this node\n"
                    "  titan-analyze clean dumps/ --older-than 7          those, and dumps in dumps/\n"
                    "  titan-analyze clean dumps/ --run job-17 --dry-run\n\n"
                    "Age counts from the newest dump of an attempt, and from a ring's last sign of life. What lives on "
                    "this node stays, and so\n"
                    "does every file that is no ring and no dump.");
    command.option("PATH", arguments->common.paths, "dump directories (rings of this node are looked at without it)");
    command.option("--older-than", arguments->older_than_days, "days").not_negative();
    command.option("--run", arguments->common.run, "only this run");
    command.flag("--dry-run", arguments->dry_run, "only say what would go");
    command.flag("--no-rings", arguments->common.no_rings, "leave the rings of this node alone");
    add_ring_directory_option(command, arguments->common.ring_directory);
    return {&command, [arguments] {
                if (arguments->older_than_days < 0 && arguments->common.run.empty()) {
                    return fail("clean what? --older-than DAYS, --run NAME, or both (--help shows more)");
                }
                return Cleaner(*arguments).run();
            }};
}

}  // namespace titan::analyzer
