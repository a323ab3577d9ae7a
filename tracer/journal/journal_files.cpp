#include "journal_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/fd.h"
#include "base/private_dir.h"
#include "base/text.h"
#include "dump_files.h"
#include "formats/container/section_writer.h"
#include "formats/layout/journal_layout.h"
#include "job.h"
#include "log.h"

namespace titan::tracer {
namespace {

constexpr int kMostClashes = 100;
constexpr uint64_t kLeastFileBytes = 4 << 20;  // one call of append() at most

}  // namespace

void JournalFiles::start(const Config& config, const Identity& identity, uint64_t most_bytes) {
    *this = JournalFiles();
    config_ = &config;
    identity_ = &identity;
    file_most_bytes_ = std::max(most_bytes / kFiles, kLeastFileBytes);
}

bool JournalFiles::append(const void* bytes, size_t size_bytes) {
    const bool is_full = has_file_ && file_bytes_ + size_bytes > file_most_bytes_;
    if ((!has_file_ || is_full) && !begin_file()) {
        return false;
    }
    Fd file = open_newest();
    if (!file.valid() && begin_file()) {  // somebody has removed it
        file = open_newest();
    }
    // What was written in part would hide what is appended behind it.
    if (!file.valid() || !write_all(file.get(), bytes, size_bytes) || !file.close_now()) {
        has_file_ = false;
        if (file_bytes_ == sizeof(format::DumpHeader)) {
            forget_file();
        }
        return false;
    }
    file_bytes_ += size_bytes;
    return true;
}

Fd JournalFiles::open_directory() const {
    Fd base = open_user_path(config_->dir);
    const Fd run_dir = base.valid() ? open_run_dir(base.get(), identity_->run) : Fd();
    char attempt[16];
    format_text(attempt, sizeof(attempt), "%d", identity_->attempt);
    return run_dir.valid() ? open_plain_dir(run_dir.get(), attempt) : Fd();
}

// A file without a block is no use. As long as a disk is full, one would come with each try, and each would make an old
// one go. Keeps errno.
void JournalFiles::forget_file() {
    const int error = errno;
    const format::JournalName name(identity_->host, identity_->boot_id, number_);
    if (const Fd directory = open_directory(); directory.valid()) {
        has_number_ = unlinkat(directory.get(), name.text, 0) == 0;
    }
    errno = error;
}

bool JournalFiles::begin_file() {
    has_file_ = false;
    const Fd directory = open_directory();
    if (!directory.valid()) {
        return false;
    }
    Fd file;
    for (int clash = 0; clash < kMostClashes && !file.valid(); ++clash) {
        number_ = has_number_ ? number_ : take_journal_number();
        has_number_ = false;
        const format::JournalName name(identity_->host, identity_->boot_id, number_);
        file = Fd(openat(directory.get(), name.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        let_group_read(file.get());
        if (!file.valid() && errno != EEXIST) {
            return false;
        }
        TextWriter path(path_, sizeof(path_));
        path.format("%s/%s/%d/%s", config_->dir, identity_->run, identity_->attempt, name.text);
        if (path.cut()) {
            errno = ENAMETOOLONG;
            return false;
        }
    }
    const format::DumpHeader header =
        format::make_file_header(format::kJournalMagic, format::kJournalMajor, format::kJournalMinor);
    struct stat status {};
    const bool is_made = file.valid();
    if (!is_made || fstat(file.get(), &status) != 0 || !write_all(file.get(), &header, sizeof(header)) ||
        !file.close_now()) {
        if (is_made) {
            forget_file();
        }
        return false;
    }
    const bool is_first_of_job = number_ == 0 && identity_->rank == identity_->local_rank;
    if (is_first_of_job) {
        log_line("markers are kept in %s (TITANTRACE_JOURNAL_MIB=0 keeps none)", path_);
    }
    device_ = status.st_dev;
    inode_ = status.st_ino;
    file_bytes_ = sizeof(header);
    has_file_ = true;
    remove_oldest(directory.get());
    return true;
}

// By the whole path, which costs one look: that no link leads elsewhere is known by the file itself.
Fd JournalFiles::open_newest() const {
    Fd file(open(path_, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    const bool is_it = file.valid() && fstat(file.get(), &status) == 0 && status.st_dev == device_ &&
                       status.st_ino == inode_ && static_cast<uint64_t>(status.st_size) == file_bytes_;
    return is_it ? std::move(file) : Fd();
}

void JournalFiles::remove_oldest(int directory) const {
    if (number_ >= kFiles) {
        const format::JournalName name(identity_->host, identity_->boot_id, number_ - kFiles);
        unlinkat(directory, name.text, 0);
    }
}

}  // namespace titan::tracer
