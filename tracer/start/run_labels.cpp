#include "run_labels.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "formats/layout/label_names.h"
#include "markers.h"

namespace titan::tracer {
namespace {

constexpr size_t kShaBytes = 40;

bool is_sha(const char* text) { return strspn(text, "0123456789abcdef") == kShaBytes && text[kShaBytes] == '\0'; }

// The commit of a reference in packed-refs, which has a line "COMMIT REFERENCE" for each.
bool find_packed(int git_dir, const char* ref, char (&commit)[64]) {
    constexpr size_t kMostBytes = 4 << 20;
    const Fd file(openat(git_dir, "packed-refs", O_RDONLY | O_CLOEXEC));
    char room[4096];
    size_t held = 0;
    size_t seen = 0;
    for (ssize_t got = 0; file.valid() && seen < kMostBytes; seen += static_cast<size_t>(got)) {
        got = read(file.get(), room + held, sizeof(room) - 1 - held);
        if (got <= 0) {
            return false;
        }
        held += static_cast<size_t>(got);
        room[held] = '\0';
        char* line = room;
        for (char* end = strchr(line, '\n'); end != nullptr; line = end + 1, end = strchr(line, '\n')) {
            *end = '\0';
            if (strlen(line) > kShaBytes && line[kShaBytes] == ' ' && same_text(line + kShaBytes + 1, ref)) {
                line[kShaBytes] = '\0';
                return copy_text(commit, sizeof(commit), line);
            }
        }
        held -= static_cast<size_t>(line - room);
        memmove(room, line, held);
        held = held == sizeof(room) - 1 ? 0 : held;  // no reference is as long
    }
    return false;
}

// The commit of a repository's directory: HEAD is a commit, or names a reference to one.
bool read_commit(int git_dir, char (&sha)[kShaBytes + 1]) {
    char head[256];
    read_small_file(git_dir, "HEAD", head, sizeof(head));
    constexpr const char* kRef = "ref: ";
    if (!starts_with(head, kRef)) {
        return is_sha(head) && copy_text(sha, sizeof(sha), head);
    }
    const char* const ref = head + strlen(kRef);
    char commit[64];
    const bool is_found =
        starts_with(ref, "refs/") && strstr(ref, "..") == nullptr &&
        (read_small_file(git_dir, ref, commit, sizeof(commit)) != 0 || find_packed(git_dir, ref, commit));
    return is_found && is_sha(commit) && copy_text(sha, sizeof(sha), commit);
}

dev_t device_of(const Fd& directory) {
    struct stat status {};
    return directory.valid() && fstat(directory.get(), &status) == 0 ? status.st_dev : 0;
}

// The repository that the directory lies in, looked for upwards as git does, which leaves no file system: a name that
// is asked of an automounter may take it long. Worktrees and submodules have a file in place of the directory; those
// are left out.
bool find_commit(const char* directory, char (&sha)[kShaBytes + 1]) {
    constexpr int kMostLevels = 8;
    Fd at(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const dev_t device = device_of(at);
    for (int level = 0; level < kMostLevels && device != 0 && device_of(at) == device; ++level) {
        const Fd git_dir(openat(at.get(), ".git", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (git_dir.valid()) {
            return read_commit(git_dir.get(), sha);
        }
        at = Fd(openat(at.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    return false;
}

// As titan_label does for the program: the journal is made of markers.
void mark(Session& session, uint32_t key, uint32_t text, uint64_t ticks) {
    format::MarkerEntry marker = marker_of(format::MarkerKind::kLabel, {.ticks = ticks});
    marker.name = key;
    marker.text = text;
    record_marker(session, static_cast<uint32_t>(gettid()), marker);
}

}  // namespace

void label_run(Session& session) {
    LabelList list;
    copy_text(list, sizeof(list), session.config.labels);
    for (char* item = list; item != nullptr && *item != '\0';) {
        char* const comma = strchr(item, ',');
        if (comma != nullptr) {
            *comma = '\0';
        }
        if (char* const equals = strchr(item, '='); equals != nullptr) {
            *equals = '\0';
            const uint32_t key = session.strings.intern(item);
            const uint32_t text = session.strings.intern(equals + 1);
            const uint64_t ticks = now_ticks();
            session.labels.set(key, text, ticks, 0);
            mark(session, key, text, ticks);
        }
        item = comma == nullptr ? nullptr : comma + 1;
    }
}

void label_commit(Session& session, const char* directory) {
    char sha[kShaBytes + 1];
    if (find_commit(directory, sha)) {
        const uint32_t key = session.strings.intern(format::kCommitLabel);
        const uint32_t text = session.strings.intern(sha);
        const uint64_t ticks = now_ticks();
        if (session.labels.set_absent(key, text, ticks)) {
            mark(session, key, text, ticks);
        }
    }
}

}  // namespace titan::tracer
