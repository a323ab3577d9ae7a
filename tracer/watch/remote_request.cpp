#include "remote_request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/futex.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "dump_files.h"
#include "dump_reasons.h"
#include "formats/layout/dump_layout.h"
#include "log.h"
#include "own_thread.h"
#include "session.h"
#include "watch.h"

namespace titan::tracer {
namespace {

constexpr const char* kFirstWord = "titantrace-dump-request 1";
constexpr size_t kFileBytes = 512;

constinit std::atomic<uint32_t> wake{0};
constinit std::atomic<bool> polling{false};
constinit std::atomic<uint32_t> order_state{0};  // 0 free, 1 being written, 2 to be told
constinit JobRequest order{};

uint64_t random_id() {
    uint64_t id = 0;
    if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(id))) {
        id = realtime_now_ns() * kHashMultiplier ^ static_cast<uint64_t>(getpid());
    }
    return id <= kNoRemoteRequest ? id + 2 : id;
}

// The path is opened part by part: no link below the user's directory, and opening the directory first makes NFS look
// at it afresh, where a remembered "no such file" would hide a new one for half a minute.
bool read_request(const Session& session, RemoteRequest& remote) {
    char path[PATH_MAX];
    TextWriter writer(path, sizeof(path));
    writer.format("%s/%s", session.config.dir, session.identity.run);
    Fd dir(writer.cut() ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    Fd file(dir.valid() ? openat(dir.get(), format::kDumpRequestName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                        : -1);
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        return false;
    }
    char text[kFileBytes];
    ssize_t got = read(file.get(), text, sizeof(text) - 1);
    text[got > 0 ? got : 0] = '\0';
    return parse_remote_request(text, remote);
}

void poll_request(const Session& session) {
    RemoteRequest remote{};
    if (!learn_remote_id(read_request(session, remote) ? remote.id : kNoRemoteRequest)) {
        return;
    }
    if (in_job()) {
        publish_request(remote.request);
    } else {
        request_peer_dump(remote.request);
    }
}

void notify_others(const Session& session, const JobRequest& request) {
    RemoteRequest other{};
    if (read_request(session, other) && learn_remote_id(other.id)) {
        return;  // another node has just asked; this one is dumping already
    }
    const RemoteRequest remote{random_id(), request};
    char text[kFileBytes];
    const size_t text_bytes = write_remote_request(remote, text, sizeof(text));
    Fd base = open_user_path(session.config.dir);
    Fd dir = base.valid() ? open_run_dir(base.get(), session.identity.run) : Fd();
    char temporary[64];
    format_text(temporary, sizeof(temporary), ".%s.%016lx.tmp", format::kDumpRequestName, remote.id);
    Fd file(dir.valid() ? openat(dir.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                        : -1);
    learn_remote_id(remote.id);
    if (!file.valid() || write(file.get(), text, text_bytes) != static_cast<ssize_t>(text_bytes) || !file.close_now() ||
        renameat(dir.get(), temporary, dir.get(), format::kDumpRequestName) != 0) {
        warn_once("other nodes do not learn of this dump: %s cannot be written (%s)", session.config.dir,
                  error_text(errno));
        if (dir.valid()) {
            unlinkat(dir.get(), temporary, 0);
        }
    }
}

bool spans_nodes(const Session& session) {
    return session.identity.world_size > 1 && ranks_here() < static_cast<uint32_t>(session.identity.world_size);
}

// Or until there is more to tell.
void await_turn(const Session& session, const JobRequest& request, uint32_t word) {
    if (row_of(request.reason).strikes == Strikes::kEverywhere) {
        futex_wait(wake, word, turn_ns(session.identity.rank, session.identity.world_size, ranks_here()));
    }
}

void run_remote(void* argument) {
    const Session& session = *static_cast<const Session*>(argument);
    uint64_t next_poll_ns = 0;
    for (;;) {
        const uint32_t word = wake.load(std::memory_order_acquire);
        if (order_state.load(std::memory_order_acquire) == 2) {
            const JobRequest request = order;
            order_state.store(0, std::memory_order_release);
            if (spans_nodes(session)) {
                await_turn(session, request, word);
                notify_others(session, request);
            }
        }
        uint64_t now_ns = monotonic_now_ns();
        if (now_ns >= next_poll_ns && polling.load(std::memory_order_relaxed) && spans_nodes(session)) {
            poll_request(session);
            next_poll_ns = now_ns + look_pause_ns(session.identity.world_size, ranks_here());
        }
        futex_wait(wake, word, kLookPauseNs);
    }
}

// The next token of "word word ...", cut out of `text`; empty at the end.
const char* next_token(char*& text) {
    text += strspn(text, " ");
    char* token = text;
    text += strcspn(text, " \n");
    if (*text == ' ') {
        *text++ = '\0';
    }
    return token;
}

bool parse_hex(const char* text, uint64_t& value) {
    value = 0;
    for (; *text != '\0'; ++text) {
        const char* digit = strchr("0123456789abcdef", *text);
        if (digit == nullptr || value >> 60 != 0) {
            return false;
        }
        value = value * 16 + static_cast<uint64_t>(digit - "0123456789abcdef");
    }
    return true;
}

}  // namespace

size_t write_remote_request(const RemoteRequest& remote, char* out, size_t capacity_bytes) {
    std::string_view reason = format::name_of(remote.request.reason);
    TextWriter text(out, capacity_bytes);
    text.format("%s %016lx %d ", kFirstWord, remote.id, remote.request.rank < 0 ? 0 : remote.request.rank);
    text.text(reason.data(), reason.size());
    text.format(" %lu ", remote.request.realtime_ns);
    for (const char* c = remote.request.detail; *c != '\0'; ++c) {
        text.put(*c == '\n' ? ' ' : *c);
    }
    text.put('\n');
    return text.size_bytes();
}

bool parse_remote_request(const char* text, RemoteRequest& remote) {
    char copy[kFileBytes];
    const size_t first_bytes = strlen(kFirstWord);
    if (!copy_text(copy, sizeof(copy), text) || !starts_with(copy, kFirstWord) || copy[first_bytes] != ' ' ||
        strchr(copy, '\n') == nullptr) {
        return false;
    }
    *strchr(copy, '\n') = '\0';
    char* rest = copy + first_bytes;
    uint64_t rank = 0;
    remote.request = JobRequest{};
    if (!parse_hex(next_token(rest), remote.id) || remote.id <= kNoRemoteRequest ||
        !parse_u64(next_token(rest), rank) || rank > INT32_MAX) {
        return false;
    }
    remote.request.rank = static_cast<int32_t>(rank);
    const char* reason = next_token(rest);
    for (const auto& row : format::rows_of(format::DumpReason{})) {
        if (row.name == reason) {
            remote.request.reason = row.value;
        }
    }
    if (!parse_u64(next_token(rest), remote.request.realtime_ns) || remote.request.reason == format::DumpReason{}) {
        return false;
    }
    copy_text(remote.request.detail, sizeof(remote.request.detail), rest);
    return true;
}

bool start_remote(Session& session) {
    order_state.store(0, std::memory_order_relaxed);
    return session.identity.rank >= 0 && session.identity.world_size > 1 &&
           start_own_thread("titan-remote", run_remote, &session);
}

void ask_other_nodes(const JobRequest& request) {
    uint32_t free = 0;
    if (!first_to_ask_others() || !order_state.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
        return;
    }
    order = request;
    order_state.store(2, std::memory_order_release);
    wake.fetch_add(1, std::memory_order_release);
    futex_wake_all(wake);
}

void set_remote_polling(bool on) { polling.store(on, std::memory_order_relaxed); }

namespace {

uint64_t nodes_of(uint64_t ranks, uint32_t ranks_here) { return ranks / std::max<uint32_t>(ranks_here, 1); }

}  // namespace

uint64_t look_pause_ns(int32_t world_size, uint32_t ranks_here) {
    const auto ranks = static_cast<uint64_t>(std::max(world_size, 0));
    return std::max(kLookPauseNs, nodes_of(ranks, ranks_here) * kTurnNs);
}

uint64_t turn_ns(int32_t rank, int32_t world_size, uint32_t ranks_here) {
    if (rank < 0 || rank >= world_size) {
        return 0;
    }
    const uint64_t nodes = nodes_of(static_cast<uint64_t>(world_size), ranks_here);
    return nodes_of(static_cast<uint64_t>(rank), ranks_here) *
           std::min(kTurnNs, kLastTurnNs / std::max<uint64_t>(nodes, 1));
}

}  // namespace titan::tracer
