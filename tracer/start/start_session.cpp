#include "start_session.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map_private.h"
#include "base/process.h"
#include "base/uninterrupted.h"
#include "bindings.h"
#include "journal.h"
#include "log.h"
#include "own_thread.h"
#include "run_labels.h"
#include "signals.h"
#include "thread_state.h"
#include "tick_work.h"
#include "watch.h"

namespace titan::tracer {

namespace {

// The process that recorded last, and as which rank; a forked child inherits them, whatever way it was forked.
constinit pid_t recorded_pid = 0;
constinit int32_t recorded_rank = -1;
constinit std::atomic<bool> rank_declined{false};  // this process is no rank, and asking again costs

void wipe_in_child() {
    ForkPage* const page = fork_page.load(std::memory_order_relaxed);
    if (page->phase.load(std::memory_order_relaxed) != Phase::kAsleep) {  // the kernel has not wiped it
        memset(static_cast<void*>(page), 0, sizeof *page);
        wipe_threads_table();
    }
}

ForkPage* make_fork_page() {
    const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* const memory = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    ForkPage* expected = nullptr;
    if (!fork_page.compare_exchange_strong(expected, static_cast<ForkPage*>(memory))) {
        munmap(memory, page_bytes);
        return expected;
    }
    madvise(memory, page_bytes, MADV_WIPEONFORK);
    pthread_atfork(nullptr, nullptr, wipe_in_child);  // needed for kernels before 4.14
    return static_cast<ForkPage*>(memory);
}

struct RegionView {
    void* base;
    uint64_t count;
    format::RegionCursor* cursor;
};

// The ring is our own, so every region is there.
RegionView view_of(format::RingHeader& header, format::RegionKind kind) {
    const format::RegionDescriptor* region = nullptr;
    format::RegionCursor* cursor = nullptr;
    char* const base = region_bytes(header, kind, &region, &cursor);
    return {base, region->count, cursor};
}

template <typename Slot>
Ring<Slot> ring_of(format::RingHeader& header, format::RegionKind kind) {
    const RegionView view = view_of(header, kind);
    return {static_cast<Slot*>(view.base), view.count, *view.cursor};
}

void map_regions(Session& session) {
    format::RingHeader& header = *session.header;
    using format::RegionKind;
    session.collectives = ring_of<format::CollectiveEntry>(header, RegionKind::kCollectives);
    session.cuda_calls = ring_of<format::CudaCallEntry>(header, RegionKind::kCudaCalls);
    session.stream_work = ring_of<format::StreamWorkEntry>(header, RegionKind::kStreamWork);
    session.channels = ring_of<format::ChannelEntry>(header, RegionKind::kChannels);
    session.markers = ring_of<format::MarkerEntry>(header, RegionKind::kMarkers);

    const RegionView index = view_of(header, RegionKind::kStringIndex);
    const RegionView heap = view_of(header, RegionKind::kStringHeap);
    session.strings = StringTable(
        static_cast<format::StringRecord*>(index.base), index.count, static_cast<char*>(heap.base), heap.count,
        *heap.cursor, header.losses[static_cast<size_t>(format::Loss::kStringsDropped)], session.string_states);

    if (char* const sites = region_bytes(header, RegionKind::kCallSites, nullptr)) {
        session.call_sites.start(sites, session.config.stacks.call_sites,
                                 header.losses[static_cast<size_t>(format::Loss::kCallSitesDropped)]);
    }

    const RegionView spans = view_of(header, RegionKind::kOpenSpans);
    session.open_spans = OpenSpans(static_cast<format::OpenSpanRecord*>(spans.base), spans.count);
    const RegionView places = view_of(header, RegionKind::kMarkerSites);
    session.marker_sites = MarkerSites(static_cast<format::MarkerSiteRecord*>(places.base), session.marker_sites_used,
                                       header.losses[static_cast<size_t>(format::Loss::kMarkerSitesDropped)]);
    const RegionView labels = view_of(header, RegionKind::kLabels);
    session.labels = Labels(static_cast<format::LabelRecord*>(labels.base), session.labels_used,
                            header.losses[static_cast<size_t>(format::Loss::kLabelsDropped)]);
    session.readings = ring_of<format::HealthEntry>(header, RegionKind::kHealth);

    const RegionView threads = view_of(header, RegionKind::kThreads);
    session.threads = static_cast<format::ThreadRecord*>(threads.base);
    session.thread_rows = threads.count;

    const RegionView communicators = view_of(header, RegionKind::kCommunicators);
    const RegionView counters = view_of(header, RegionKind::kP2pCounters);
    session.communicators.start(static_cast<format::CommunicatorRecord*>(communicators.base),
                                static_cast<uint32_t>(communicators.count), *communicators.cursor,
                                static_cast<uint64_t*>(counters.base), counters.count / sizeof(uint64_t),
                                *counters.cursor);
}

// A child inherits the variables of its rank also across an exec: of a rank that records, its compilers and tuners are
// none, whatever they do with CUDA.
bool is_child_of_recorded() {
    constexpr int kMostAncestors = 16;
    auto* const config = map_private<Config>();  // too large for the stack of a stranger's thread
    if (config == nullptr) {
        return false;
    }
    load_config(*config);
    ProcessStat stat{};
    bool found = false;
    pid_t pid = getppid();
    for (int i = 0; i < kMostAncestors && !found && read_process_stat(pid, stat); ++i) {
        found = has_ring(*config, pid, stat.start_ticks);
        pid = stat.parent;
    }
    munmap(config, sizeof(Config));
    return found;
}

bool forked_from_recorded() { return recorded_pid != 0 && recorded_pid != getpid(); }

// A child of a rank inherits its environment, and is not that rank: two records of one rank would hide each other.
void disown_rank_of_parent(Identity& identity) {
    if (forked_from_recorded() && identity.rank == recorded_rank) {
        identity.rank = identity.local_rank = -1;
    }
    recorded_pid = identity.pid;
    recorded_rank = identity.rank;
}

Session* open_session() {
    auto* const session = map_private<Session>();
    if (session == nullptr) {
        return nullptr;
    }
    load_config(session->config);
    read_identity(session->config, session->identity);
    disown_rank_of_parent(session->identity);
    set_log_rank(session->identity.rank);
    if (bindings().other_copy_records || !session->config.enabled ||
        !rank_selected(session->config, session->identity.rank)) {
        munmap(session, sizeof(Session));
        return nullptr;
    }
    if (session->identity.local_rank <= 0) {  // one line of a node, and not of each rank
        report_settings(session->config);
    }
    if (counter_is_forbidden()) {
        warn_once("the program forbids the time stamp counter: cannot record in this process; it runs on without");
        munmap(session, sizeof(Session));
        return nullptr;
    }
    start_clock();
    // The ring last: where something is missing, the program keeps its memory, and no ring tells of a process that is
    // not recorded.
    if (!start_threads_table() || !create_ring_file(session->config, session->identity, session->ring_file)) {
        warn_once("cannot record in this process; it runs on without");
        munmap(session, sizeof(Session));
        return nullptr;
    }
    session->header = session->ring_file.header;
    map_regions(*session);
    for (size_t i = 0; i < bindings().apis.count && i < kMaxApis; ++i) {
        session->api_names[i] = session->strings.intern(bindings().apis.names[i]);
    }
    label_run(*session);
    session->header->state = format::ProcessState::kRunning;
    return session;
}

// Gives up for good: nobody waits for this start any more. If it still succeeds, calls are recorded from then on.
void give_up_start(ForkPage& page) {
    Phase phase = Phase::kStarting;
    page.phase.compare_exchange_strong(phase, Phase::kOff, std::memory_order_acq_rel);
}

// The start is kept from being cut off (start_protected); where it was all the same, nobody may pay for that but the
// record.
bool is_start_abandoned(const ForkPage& page) {
    const int starter = page.starter.load(std::memory_order_relaxed);
    if (starter == gettid()) {
        const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
        return here > page.starter_frame.load(std::memory_order_relaxed);  // left by a longjmp
    }
    return starter != 0 && syscall(SYS_tgkill, getpid(), starter, 0) != 0 && errno == ESRCH;
}

// Waits for the thread that is starting the session: the record must not miss what this thread is about to do.
Session* wait_for_start(ForkPage& page) {
    constexpr uint64_t kLongestStartNs = 2'000'000'000;
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 500'000};
    const int saved_errno = errno;
    const NotCancelled not_cancelled;
    const uint64_t deadline_ns = monotonic_now_ns() + kLongestStartNs;
    while (page.phase.load(std::memory_order_acquire) == Phase::kStarting) {
        if (is_start_abandoned(page) || monotonic_now_ns() > deadline_ns) {
            give_up_start(page);
        } else if (page.starter.load(std::memory_order_relaxed) == gettid()) {
            break;  // the handler of a fault interrupted the start
        } else {
            nanosleep(&kPause, nullptr);
        }
    }
    errno = saved_errno;
    return page.session.load(std::memory_order_acquire);
}

// A signal's handler may never return here, and a thread that is cancelled certainly not: both wait until the session
// is there.
Session* start_protected(ForkPage& page) {
    const NotCancelled not_cancelled;
    const Uninterrupted uninterrupted;
    page.starter_frame.store(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), std::memory_order_relaxed);
    Session* const opened = open_session();
    page.session.store(opened, std::memory_order_release);
    if (opened != nullptr) {
        set_cuda_interposed(opened->config.cuda == CudaMode::kInterpose);
        start_tick_work();
        start_watch(do_tick_work, save_journal);
        start_own_thread(
            "titan-commit", [](void* session) { label_commit(*static_cast<Session*>(session), "."); }, opened);
        install_signals(opened->config);
    }
    page.phase.store(opened != nullptr ? Phase::kRunning : Phase::kOff, std::memory_order_release);
    return opened;
}

}  // namespace

void set_bindings(const Bindings& given) {
    keep_bindings(given);
    set_starters({start_session, start_session_of_rank});
    note_processors_of_launch();
}

Session* start_session() {
    ForkPage* page = fork_page.load(std::memory_order_acquire);
    if (page == nullptr) {
        page = make_fork_page();
        if (page == nullptr) {
            return nullptr;
        }
    }
    const int self = gettid();
    Phase phase = Phase::kAsleep;
    if (!page->phase.compare_exchange_strong(phase, Phase::kStarting, std::memory_order_acq_rel)) {
        return phase == Phase::kStarting ? wait_for_start(*page) : page->session.load(std::memory_order_acquire);
    }
    page->starter.store(self, std::memory_order_relaxed);
    Session* const opened = start_protected(*page);
    if (opened != nullptr && bindings().session_started != nullptr) {
        bindings().session_started(opened->config.cuda == CudaMode::kCupti);
    }
    return opened;
}

Session* start_session_of_rank() {
    ForkPage* const page = fork_page.load(std::memory_order_acquire);
    if (page != nullptr && page->phase.load(std::memory_order_acquire) != Phase::kAsleep) {
        return wait_for_start(*page);
    }
    if (forked_from_recorded() || rank_declined.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    if (!environment_names_rank() || is_child_of_recorded()) {
        rank_declined.store(true, std::memory_order_relaxed);
        return nullptr;
    }
    return start_session();
}

}  // namespace titan::tracer
