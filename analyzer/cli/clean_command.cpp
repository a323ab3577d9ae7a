// titan-analyze clean: removes what jobs that ended left behind.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "commands.h"
#include "discover.h"
#include "formats/container/dump_reader.h"
#include "formats/layout/dump_layout.h"
#include "formats/layout/dump_name.h"
#include "formats/layout/journal_layout.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "journals.h"
#include "rings.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;

constexpr double kNsPerDay = 86400e9;

struct CleanArguments {
    CommonOptions common;
    double older_than_days = -1;
    bool dry_run = false;
    bool yes = false;
};

struct Doomed {
    std::string path;
    uint64_t size_bytes = 0;
};

std::string size_text(size_t count, const char* what, uint64_t bytes) {
    return fmt::format("{}, {:.1f} MB", counted(count, what), static_cast<double>(bytes) / 1e6);
}

uint64_t bytes_of(const std::vector<Doomed>& doomed) {
    uint64_t bytes = 0;
    for (const Doomed& file : doomed) {
        bytes += file.size_bytes;
    }
    return bytes;
}

bool says_yes() {
    std::string answer;
    return ::isatty(STDIN_FILENO) != 0 && std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

int64_t age_ns(int64_t written_ns) { return static_cast<int64_t>(realtime_now_ns()) - written_ns; }

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
            choose_rings(rings);
        }
        if (!arguments_.common.paths.empty()) {
            const auto discovery = discover(arguments_.common.paths);
            if (!discovery) {
                return fail(discovery.error().text());
            }
            for (const CandidateGroup& group : discovery->groups) {
                choose_dumps(group);
            }
        }
        if (!may_remove_rings()) {
            return fail(fmt::format(
                "nothing removed: {} of this node would go, too; --yes removes them, --no-rings leaves them",
                size_text(rings_.size(), "ring", bytes_of(rings_))));
        }
        remove_all();
        print("{} {}\n", arguments_.dry_run ? "would remove" : "removed", size_text(count_, "file", bytes_));
        return failed_ ? kExitUnusable : kExitHealthy;
    }

  private:
    bool is_wanted(const std::string& run, int64_t age_ns) const {
        return (arguments_.common.run.empty() || arguments_.common.run == run) &&
               static_cast<double>(age_ns) >= arguments_.older_than_days * kNsPerDay;
    }

    // A ring that cannot be read may be one in the making, and of one from another machine nobody knows whether it
    // lives.
    void choose_rings(const std::vector<NodeRing>& rings) {
        for (const NodeRing& ring : rings) {
            const bool dead =
                ring.problem.empty() && ring.liveness != Liveness::kAlive && ring.liveness != Liveness::kUnknown;
            if (dead && is_wanted(ring.run, ring.age_ns)) {
                rings_.push_back({ring.path, ring.size_bytes});
            }
        }
    }

    void choose_dumps(const CandidateGroup& group) {
        if (living_.contains({group.run, group.attempt}) || !is_wanted(group.run, age_ns(group.newest_ns))) {
            return;
        }
        for (const Candidate& file : group.files) {
            // Others name their files so, too: checkpoints, for one.
            if (format::is_dump_name(file.path) && format::is_dump(file.path)) {
                doom(group, file.path, file.size_bytes);
            }
        }
        for (const std::string& journal : group.journals) {
            const auto file = open_journal(journal);
            uint64_t magic = 0;
            if (file && file->read_at(0, &magic, sizeof(magic)) == sizeof(magic) && magic == format::kJournalMagic) {
                doom(group, journal, file->size_bytes());
            }
        }
    }

    void doom(const CandidateGroup& group, const std::string& path, uint64_t size_bytes) {
        dumps_.push_back({path, size_bytes});
        if (!group.attempt.empty()) {
            attempts_.insert(files::path(path).parent_path());
        }
    }

    // A user who names a directory of dumps may not have the node's rings in mind.
    bool may_remove_rings() const {
        if (arguments_.common.paths.empty() || rings_.empty() || arguments_.yes || arguments_.dry_run) {
            return true;
        }
        if (::isatty(STDIN_FILENO) != 0) {
            say("{} of this node go, too. Remove them? [y/N] ", size_text(rings_.size(), "ring", bytes_of(rings_)));
        }
        return says_yes();
    }

    void remove_all() {
        for (const std::vector<Doomed>* doomed : {&rings_, &dumps_}) {
            for (const Doomed& file : *doomed) {
                remove(file);
            }
        }
        for (const files::path& directory : arguments_.dry_run ? std::set<files::path>() : attempts_) {
            remove_empty(directory);
        }
    }

    // Also removes the other files that we write into such directories; files of others keep them.
    static void remove_empty(const files::path& attempt) {
        remove_if_ours(attempt, [](const std::string& name) { return is_verdict_name(name); });
        remove_if_ours(attempt.parent_path(), [](const std::string& name) {
            return name == format::kReadmeName || name == format::kDumpRequestName;
        });
    }

    static void remove_if_ours(const files::path& directory, bool (*is_ours)(const std::string&)) {
        std::error_code failed;
        std::vector<files::path> ours;
        for (files::directory_iterator item(directory, failed), end; !failed && item != end; item.increment(failed)) {
            if (!is_ours(item->path().filename())) {
                return;
            }
            ours.push_back(item->path());
        }
        for (const files::path& file : ours) {
            files::remove(file, failed);
        }
        files::remove(directory, failed);
    }

    void remove(const Doomed& file) {
        std::error_code failed;
        if (!arguments_.dry_run && !files::remove(file.path, failed)) {
            say("titan-analyze: {} cannot be removed: {}\n", printable(file.path), failed.message());
            failed_ = true;
            return;
        }
        print("{}\n", printable(file.path));
        ++count_;
        bytes_ += file.size_bytes;
    }

    const CleanArguments& arguments_;
    std::set<std::pair<std::string, std::string>> living_;  // run, attempt
    std::vector<Doomed> rings_;
    std::vector<Doomed> dumps_;
    std::set<files::path> attempts_;  // directories that may be empty then
    size_t count_ = 0;
    uint64_t bytes_ = 0;
    bool failed_ = false;
};

}  // namespace

Command clean_command(CommandLine& app) {
    const auto arguments = std::make_shared<CleanArguments>();
    CommandLine& command = app.command(
        "clean", "Remove rings and dumps of jobs that ended.",
        "examples:\n"
        "  titan-analyze clean --older-than 7                 rings on this node\n"
        "  titan-analyze clean dumps/ --older-than 7          those, and dumps in dumps/; asks first, or give --yes\n"
        "  titan-analyze clean dumps/ --run job-17 --dry-run\n\n"
        "Age counts from the newest dump of an attempt, and from a ring's last sign of life. Files of "
        "processes that live on\n"
        "this node stay, and so does every file that is neither a ring nor a dump.");
    command.option("PATH", arguments->common.paths, "dump directories (default: only the rings of this node)");
    command.option("--older-than", arguments->older_than_days, "days").not_negative();
    command.option("--run", arguments->common.run, "only this run");
    command.flag("--dry-run", arguments->dry_run, "only show what would be removed");
    command.flag("--yes", arguments->yes, "remove rings of this node together with dumps, and do not ask");
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
