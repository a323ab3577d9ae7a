#include "new_dumps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/private_dir.h"
#include "base/rename_new.h"
#include "discover.h"
#include "dump_meta.h"
#include "formats/container/dump_reader.h"
#include "formats/layout/dump_name.h"
#include "formats/layout/journal_layout.h"
#include "formats/layout/label_names.h"
#include "formats/ring/ring_clock.h"
#include "host/file_bytes.h"
#include "host/json_value.h"
#include "host/this_host.h"
#include "host/words.h"

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
    std::set<std::string> journals;
    each_entry(opened, [&](const char* name) {
        const bool hidden = *name == '.';  // not whole yet
        if (format::is_dump_name(name) && !hidden) {
            dumps.insert(name);
        } else if (!hidden && std::string_view(name).ends_with(format::kJournalSuffix)) {
            journals.insert(name);
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
    directory.journals = std::move(journals);
}

std::set<std::string> NewDumps::journals() const {
    std::set<std::string> paths;
    for (const auto& [path, directory] : known_) {
        for (const std::string& name : directory.journals) {
            const RunDirectory names(path + "/" + name);
            if (!names.attempt.empty() && (run_.empty() || names.run == run_)) {
                paths.insert(path + "/" + name);
            }
        }
    }
    return paths;
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

// --- the head of a dump

std::optional<DumpHead> read_dump_head(const std::string& path) {
    const Result<OpenFile> file = OpenFile::open(path, Links::kRefuse);
    const Result<format::RingHeader> header =
        file ? format::read_ring_header(*file) : Result<format::RingHeader>(file.error());
    if (!header) {
        return std::nullopt;
    }
    DumpHead head;
    head.world_size = header->world_size;
    head.attempt = header->attempt;
    head.written_ns = file->modified_ns();
    const Result<std::string> text = format::read_dump_meta(*file->read_all());
    if (const std::optional<DumpMeta> meta = text ? parse_dump_meta(*text) : std::nullopt) {
        const int64_t started_ns = format::RingClock(*header).realtime_ns(header->first_anchor.ticks);
        head.age_ns = std::max<int64_t>(static_cast<int64_t>(meta->realtime_ns) - started_ns, 0);
        for (const auto& [name, value] : meta->environment) {
            if (name == format::kStartedByVariable) {
                head.started_by = value;
            }
        }
    }
    return head;
}

// --- the verdict beside the dumps

namespace {

constexpr off_t kMostBytes = off_t{1} << 28;
constexpr int kCreate = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

// A name that only this process uses, on all nodes.
std::string temporary_name(const char* name) {
    return fmt::format(".{}.{}.{}.tmp", name, safe_file_name(this_host()), ::getpid());
}

std::string name_at(int64_t written_ns, const char* ending) { return fmt::format("verdict.{}.{}", written_ns, ending); }

Error error_now() { return Error(std::strerror(errno)); }

}  // namespace

VerdictFiles::VerdictFiles(const std::string& dump, int64_t age_ns)
    : directory_(std::filesystem::path(dump).parent_path()) {
    const std::filesystem::path attempt = directory_;
    const Fd run(::open(attempt.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    opened_ = Fd(::openat(run.get(), attempt.filename().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    ::fstatat(opened_.get(), std::string(base_name(dump)).c_str(), &dump_, AT_SYMLINK_NOFOLLOW);
    started_ns_ = time_ns(dump_) - age_ns;
}

std::string VerdictFiles::text_path() const { return directory_ + "/" + kVerdictText; }

// An empty one has just got its name (rename_new).
bool VerdictFiles::written(struct stat& status) const {
    return ::fstatat(opened_.get(), kVerdictJson, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
           status.st_size > 0;
}

// Where several try, the names that they choose are the same, and nobody's later verdict is moved.
void VerdictFiles::put_aside(int64_t written_ns) const {
    rename_new(opened_.get(), kVerdictText, name_at(written_ns, "txt").c_str());
    rename_new(opened_.get(), kVerdictJson, name_at(written_ns, "json").c_str());
}

std::optional<Error> VerdictFiles::write_new(const char* name, const std::string& bytes) const {
    ::unlinkat(opened_.get(), name, 0);  // left by a process of this pid that ended while it wrote
    Fd file(::openat(opened_.get(), name, kCreate, 0600));
    if (!file.valid()) {
        return error_now();
    }
    // Who may read the dumps may read what they say.
    if (::fchown(file.get(), dump_.st_uid, dump_.st_gid) == 0) {
        ::fchmod(file.get(), 0600 | (dump_.st_mode & S_IRGRP));
    }
    if (!write_all(file.get(), bytes.data(), bytes.size()) || !file.close_now()) {
        const Error error = error_now();
        ::unlinkat(opened_.get(), name, 0);
        return error;
    }
    return std::nullopt;
}

Result<bool> VerdictFiles::write(const std::string& json, const std::string& text, int64_t replaced_ns) const {
    struct stat earlier {};
    if (written(earlier)) {
        if (time_ns(earlier) >= started_ns_ && time_ns(earlier) != replaced_ns) {
            return false;
        }
        put_aside(time_ns(earlier));
    }
    const std::string json_name = temporary_name(kVerdictJson);
    const std::string text_name = temporary_name(kVerdictText);
    const std::string lines = printable(text, Keep::kOwnLines);
    for (const auto& [name, bytes] : {std::pair(&json_name, &json), std::pair(&text_name, &lines)}) {
        if (const auto error = write_new(name->c_str(), *bytes)) {
            ::unlinkat(opened_.get(), json_name.c_str(), 0);
            return *error;
        }
    }
    const bool first = rename_new(opened_.get(), json_name.c_str(), kVerdictJson);
    const int error = errno;
    if (!first) {
        ::unlinkat(opened_.get(), json_name.c_str(), 0);
        ::unlinkat(opened_.get(), text_name.c_str(), 0);
        return error == EEXIST && written(earlier) ? Result<bool>(false) : Result<bool>(Error(std::strerror(error)));
    }
    if (::renameat(opened_.get(), text_name.c_str(), opened_.get(), kVerdictText) != 0) {
        return error_now();
    }
    return true;
}

std::optional<WrittenVerdict> VerdictFiles::read() const {
    WrittenVerdict verdict;
    verdict.file = Fd(::openat(opened_.get(), kVerdictJson, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!verdict.file.valid() || ::fstat(verdict.file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size == 0 || status.st_size > kMostBytes || time_ns(status) < started_ns_ ||
        (status.st_uid != ::geteuid() && status.st_uid != dump_.st_uid)) {
        return std::nullopt;
    }
    verdict.written_ns = time_ns(status);
    verdict.json.resize(static_cast<size_t>(status.st_size));
    const ssize_t got = ::pread(verdict.file.get(), verdict.json.data(), verdict.json.size(), 0);
    verdict.json.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    const Json json = Json::parse(verdict.json).value_or(Json());
    verdict.line = json.at("one_line").text().value_or("");
    const auto& findings = json.at("findings").items();
    verdict.names_cause = std::ranges::any_of(
        findings, [](const Json& finding) { return finding.at("hangs").boolean().value_or(false); });
    return verdict;
}

bool VerdictFiles::take(std::string_view receiver) const {
    const std::string name = fmt::format("verdict.{}.told", receiver);
    struct stat earlier {};
    if (::fstatat(opened_.get(), name.c_str(), &earlier, AT_SYMLINK_NOFOLLOW) == 0) {
        if (time_ns(earlier) >= started_ns_) {
            return false;
        }
        const std::string aside = fmt::format("verdict.{}.{}.told", time_ns(earlier), receiver);
        rename_new(opened_.get(), name.c_str(), aside.c_str());
    }
    return Fd(::openat(opened_.get(), name.c_str(), kCreate, 0600)).valid();
}

}  // namespace titan::analyzer
