#include "verdict_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/rename_new.h"
#include "file_time.h"
#include "host/this_host.h"
#include "host/words.h"
#include "verdict_name.h"

namespace titan::analyzer {
namespace {

constexpr int kCreate = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

// Of this process alone, on all nodes.
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

bool VerdictFiles::is_there() const {
    struct stat status {};
    return written(status) && time_ns(status) >= started_ns_;
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

Result<bool> VerdictFiles::write(const std::string& json, const std::string& text) const {
    struct stat earlier {};
    if (written(earlier)) {
        if (time_ns(earlier) >= started_ns_) {
            return false;
        }
        put_aside(time_ns(earlier));
    }
    const std::string json_name = temporary_name(kVerdictJson);
    const std::string text_name = temporary_name(kVerdictText);
    for (const auto& [name, bytes] : {std::pair(&json_name, &json), std::pair(&text_name, &text)}) {
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

std::optional<Fd> VerdictFiles::take() const {
    Fd json(::openat(opened_.get(), kVerdictJson, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!json.valid() || ::fstat(json.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0 ||
        (status.st_uid != ::geteuid() && status.st_uid != dump_.st_uid)) {
        return std::nullopt;
    }
    const Fd taken(::openat(opened_.get(), name_at(time_ns(status), "told").c_str(), kCreate, 0600));
    return taken.valid() ? std::optional(std::move(json)) : std::nullopt;
}

}  // namespace titan::analyzer
