#include "dump_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/rename_new.h"
#include "base/text.h"
#include "formats/container/dump_writer.h"
#include "formats/layout/dump_layout.h"
#include "log.h"

namespace titan::tracer {
namespace {

constexpr int kMaxNumberClashes = 1000;
constexpr uint64_t kMaxRemovals = 64;

constexpr char kReadme[] =
    "titantrace, a flight recorder for GPU jobs, wrote these files:\n"
    "  ATTEMPT/rankNNNNN.N.titan    dump N of a rank, made when a rank hung, crashed or was asked for it\n"
    "  ATTEMPT/HOST-BOOT.N.journal  markers of all ranks of a host, for as long as they ran\n"
    "  ATTEMPT/verdict.txt, .json   what titan-run found while the job hung (titan-analyze watch)\n"
    "To read: titan-analyze DIR, with the directory that this one is in.\n"
    "In dumps: calls of NCCL and CUDA with sizes and times, stacks, names of hosts, files and functions, settings\n"
    "of NCCL and CUDA; no contents of tensors. The newest few dumps of each rank stay (TITANTRACE_KEEP).\n"
    "All may be deleted: titan-analyze clean.\n";

constinit uint32_t reading_group = kNoGroup;

Fd create_in(int dir, const char* name) {
    Fd file(openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    let_group_read(file.get());
    return file;
}

// A README for people who find these files. Only the process that creates the directory writes it, so that the others
// need not ask the file system.
void leave_readme(int run_dir) {
    const Fd file = create_in(run_dir, format::kReadmeName);
    constexpr ssize_t kBytes = sizeof(kReadme) - 1;
    if (file.valid() && ::write(file.get(), kReadme, kBytes) != kBytes) {
        unlinkat(run_dir, format::kReadmeName, 0);
    }
}

}  // namespace

void set_reading_group(uint32_t group) { reading_group = group; }

void let_group_read(int file) {
    if (file < 0 || reading_group == kNoGroup) {
        return;
    }
    if (fchown(file, static_cast<uid_t>(-1), reading_group) != 0 || fchmod(file, 0640) != 0) {
        warn_once("group %u may not read the dumps: %s", reading_group, error_text(errno));
    }
}

Fd open_run_dir(int base, const char* run) {
    bool is_new = false;
    Fd run_dir = open_plain_dir(base, run, &is_new);
    if (is_new && run_dir.valid()) {
        leave_readme(run_dir.get());
    }
    return run_dir;
}

const char* temporary_directory() {
    const char* const named = getenv("TMPDIR");
    return named != nullptr && named[0] == '/' && strlen(named) < PATH_MAX ? named : "/tmp";
}

DumpFile::~DumpFile() {
    if (temporary_[0] != '\0') {
        unlinkat(dir_.get(), temporary_, 0);
    }
}

bool DumpFile::open_in(const char* base, const DumpOwner& owner) { return open_at(open_user_path(base), base, owner); }

bool DumpFile::open_fallback(const char* temporary, const DumpOwner& owner) {
    Fd parent(open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent.valid()) {
        return false;
    }
    PrivateDirName name = private_dir_name();
    char base[PATH_MAX];
    format_text(base, sizeof(base), "%s/%s", temporary, name.text);
    return open_at(open_private_dir(parent.get(), name.text), base, owner);
}

bool DumpFile::open_at(Fd base, const char* base_path, const DumpOwner& owner) {
    if (!base.valid()) {
        return false;
    }
    char attempt[16];
    format_text(attempt, sizeof(attempt), "%d", owner.attempt);
    const Fd run_dir = open_run_dir(base.get(), owner.run);
    dir_ = run_dir.valid() ? open_plain_dir(run_dir.get(), attempt) : Fd();
    if (!dir_.valid()) {
        return false;
    }
    format_text(directory_, sizeof(directory_), "%s/%s/%s", base_path, owner.run, attempt);
    stem_ = format::DumpStem(owner.rank, owner.pid);
    format_text(temporary_, sizeof(temporary_), ".%s.titan.%d.tmp", stem_.text, getpid());
    file_ = create_in(dir_.get(), temporary_);
    if (!file_.valid() && errno == EEXIST) {
        unlinkat(dir_.get(), temporary_, 0);  // left by a process of this pid that died while writing
        file_ = create_in(dir_.get(), temporary_);
    }
    if (!file_.valid()) {
        temporary_[0] = '\0';
    }
    return file_.valid();
}

bool DumpFile::write(const void* bytes, size_t size_bytes) {
    const bool written = write_all(file_.get(), bytes, size_bytes);
    error_number_ = written ? error_number_ : errno;
    return written;
}

uint64_t DumpFile::next_number() {
    uint64_t next = 0;
    each_entry(dir_.get(), [&](const char* name) {
        uint64_t number = 0;
        if (format::dump_number(name, stem_, number) && number >= next) {
            next = number + 1;
        }
        return true;
    });
    return next;
}

// No fsync: on the parallel file systems that jobs write to it costs seconds and queues thousands of ranks behind one
// another. What it would save us from, the node losing power within seconds of the dump, also loses the job's other
// ranks' memory; a file that got its name without its bytes is found out by the end section and the checksums. close()
// is where NFS and quota report late errors, so the file is closed before it gets its name.
bool DumpFile::commit(uint64_t first_number, uint32_t keep, const EvidenceNumbers& evidence) {
    if (!file_.close_now()) {
        return false;
    }
    number_ = first_number;
    for (int clash = 0; clash < kMaxNumberClashes; ++clash, ++number_) {
        const format::DumpName name(stem_, number_);
        if (rename_new(dir_.get(), temporary_, name.text)) {
            temporary_[0] = '\0';
            format_text(path_, sizeof(path_), "%s/%s", directory_, name.text);
            remove_older(keep, evidence);
            return true;
        }
        if (errno != EEXIST) {
            return false;
        }
    }
    return false;
}

bool DumpFile::remove(uint64_t number) { return unlinkat(dir_.get(), format::DumpName(stem_, number).text, 0) == 0; }

void DumpFile::remove_older(uint32_t keep, const EvidenceNumbers& evidence) {
    for (uint64_t behind = keep; behind < keep + kMaxRemovals && behind <= number_; ++behind) {
        if (!evidence.holds(number_ - behind) && !remove(number_ - behind)) {
            return;
        }
    }
}

bool EvidenceNumbers::holds(uint64_t number) const {
    return std::find(numbers_, numbers_ + count_, number) != numbers_ + count_;
}

// The newest hang before the first end; count_ where there is none.
uint32_t EvidenceNumbers::hang_of_incident() const {
    uint32_t hang = count_;
    for (uint32_t i = 0; i < count_ && (hang == count_ || evidence_[i] == Evidence::kHang); ++i) {
        hang = evidence_[i] == Evidence::kHang ? i : hang;
    }
    return hang;
}

uint64_t EvidenceNumbers::add(uint64_t number, Evidence evidence, uint32_t keep) {
    numbers_[count_] = number;
    evidence_[count_++] = evidence;
    if (count_ <= std::min(keep, kMost)) {
        return kNone;
    }
    const bool keeps_first = hang_of_incident() == 0 && count_ > 2;
    const bool keeps_second = count_ > 3 && evidence_[1] == Evidence::kEnd;  // it tells that what follows is aftermath
    const uint32_t leaves = !keeps_first ? 0 : keeps_second ? 2 : 1;
    const uint64_t left = numbers_[leaves];
    std::move(numbers_ + leaves + 1, numbers_ + count_, numbers_ + leaves);
    std::move(evidence_ + leaves + 1, evidence_ + count_, evidence_ + leaves);
    --count_;
    return left;
}

bool write_dump_file(DumpFile& file, DumpContent& content, const DumpRoom& room, uint64_t number, uint32_t keep,
                     const EvidenceNumbers& evidence) {
    content.meta.number = number;
    auto sink = [](void* context, const void* bytes, size_t size_bytes) {
        return static_cast<DumpFile*>(context)->write(bytes, size_bytes);
    };
    format::DumpWriter writer(room.workspace, room.workspace_bytes, sink, &file);
    const size_t meta_bytes = write_meta(room.meta, kMetaBytes, content.meta);
    const bool written = writer.begin() && writer.add_meta(room.meta, meta_bytes) &&
                         writer.add_ring(content.image, content.image_bytes) &&
                         (content.stacks.empty() || writer.add_stacks(content.stacks.data(), content.stacks.size())) &&
                         writer.finish();
    if (!written) {
        errno = file.error_number() != 0 ? file.error_number() : EIO;
        return false;
    }
    return file.commit(number, keep, evidence);
}

}  // namespace titan::tracer
