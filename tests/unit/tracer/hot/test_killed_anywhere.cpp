// A process is killed after every instruction that changed its ring, and the ring that it leaves behind is read as that
// of any dead rank: what is told of it must be whole. The calls run one instruction at a time (ptrace), so that the
// tracer's own code is tested at every visible step of the slot protocol, and needs no hook for it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fixture.h"
#include "formats/ring/ring_image.h"
#define TITAN_IN_TRACER
#include "titantrace.h"

using namespace titan;
using format::OpKind;
using format::RingImage;

namespace {

constexpr uint64_t kSlots = 64;
constexpr uint64_t kRoundsBefore = 40;  // two collectives each: every slot has been used
constexpr uint64_t kLastRound = kRoundsBefore + 1;
constexpr int kSize = 4;
constexpr int kPeer = 1;
constexpr int kMayNotTrace = 77;

using Bytes = std::vector<std::byte>;

std::string span_of(uint64_t round) { return "span number " + std::to_string(round); }
void* address_of(uint64_t kind, uint64_t round) { return reinterpret_cast<void*>(kind << 32 | round << 4); }

// Calls of all kinds, all arguments of their own. Tickets: collectives 2 * round - 1 and 2 * round (0 made the
// communicator), markers 2 * round - 2 and 2 * round - 1, CUDA calls round - 1.
void issue(const tracer::CallArgs& args) {
    tracer::Call call;
    REQUIRE(enter_call(call, test::kAnyApi, args));
    leave_call(call, 0);
}

void all_reduce(void* comm, uint64_t round) {
    issue({.kind = OpKind::kAllReduce,
           .comm = comm,
           .send = address_of(1, round),
           .receive = address_of(2, round),
           .count = 1000 + round,
           .datatype = 7,
           .reduction = 2,
           .stream = address_of(3, round)});
}

void send(void* comm, uint64_t round) {
    issue({.kind = OpKind::kSend,
           .comm = comm,
           .send = address_of(4, round),
           .count = 5000 + round,
           .datatype = 9,
           .peer = kPeer,
           .stream = address_of(5, round)});
}

void cuda_call(void*, uint64_t round) {
    tracer::Call call;
    REQUIRE(enter_cuda(call, test::kAnyApi, address_of(6, round)));
    leave_cuda(call, 0);
}

constexpr void (*kRound[])(void* comm, uint64_t round) = {
    [](void*, uint64_t round) { titan_span_begin(span_of(round).c_str()); }, all_reduce, send, cuda_call,
    [](void*, uint64_t) { titan_span_end(); }};

// --- what was left behind -------------------------------------------------------------------------------------------

// Complains about everything that is told and was never so.
class Judge {
  public:
    explicit Judge(const Bytes& bytes) : bytes_(bytes) {}

    std::string problems(const std::set<std::string>& known_texts) {
        auto opened = RingImage::open(bytes_);
        if (!opened) {
            return opened.error().text();
        }
        image_ = *opened;
        collectives();
        markers();
        cuda_calls();
        for (const std::string& text : texts()) {
            // The watch thread puts places into words when it comes to it.
            const bool is_place = text.starts_with("0x") && text.ends_with("/test_tracer_killed");
            expect(known_texts.contains(text) || text == span_of(kLastRound) || is_place, "text '" + text + "'");
        }
        threads();
        return problems_;
    }

    std::set<std::string> texts() {
        image_ = *RingImage::open(bytes_);
        std::set<std::string> found;
        for (uint32_t id = 1; id <= image_.text_count(); ++id) {
            found.insert(std::string(image_.text(id)));
        }
        return found;
    }

  private:
    void expect(bool holds, const std::string& what) {
        if (!holds) {
            problems_ += what + "; ";
        }
    }

    // One thread writes: one slot at most is being written.
    void count(const char* ring, uint64_t told, const format::RingLosses& losses) {
        expect(losses.torn <= 1 && told + 1 >= kSlots,
               std::string(ring) + ": " + std::to_string(told) + " told, " + std::to_string(losses.torn) + " torn");
    }

    void collectives() {
        uint64_t told = 0;
        uint64_t next[2] = {};  // after the newest number that was told
        const auto losses = image_.for_each_collective([&](uint64_t ticket, const format::CollectiveEntry& entry) {
            ++told;
            const bool send = ticket % 2 == 0;
            const uint64_t round = (ticket + 1) / 2;
            const auto same = [&](uint64_t value, uint64_t kind) {
                return value == reinterpret_cast<uint64_t>(address_of(kind, round));
            };
            bool whole = entry.kind == (send ? OpKind::kSend : OpKind::kAllReduce) && entry.sequence == round - 1 &&
                         entry.count == (send ? 5000 : 1000) + round && entry.peer == (send ? kPeer : -1) &&
                         entry.datatype == static_cast<format::Datatype>(send ? 9 : 7) &&
                         same(entry.send_buffer, send ? 4 : 1) &&
                         (send ? entry.receive_buffer == 0 : same(entry.receive_buffer, 2)) &&
                         same(entry.stream, send ? 5 : 3) && image_.text(entry.span) == span_of(round) &&
                         entry.entered_ticks != 0 && entry.comm_rank == 0 && entry.communicator == 0 &&
                         entry.group == 0 && entry.launch == 0;
            // (later) each old or new, as single stores leave it.
            whole = whole && (entry.returned_ticks == 0 || entry.returned_ticks >= entry.entered_ticks) &&
                    (entry.result == -1 || entry.result == 0) &&
                    (entry.state == format::CallState::kEntered || entry.state == format::CallState::kEnqueued);
            // Whoever has the last word has all of them.
            whole = whole &&
                    (entry.state == format::CallState::kEntered || (entry.returned_ticks != 0 && entry.result == 0));
            expect(whole, "collective " + std::to_string(ticket));
            next[send ? 1 : 0] = round;
        });
        count("collectives", told, losses);
        const auto rows = image_.communicators();
        expect(rows.size() == 1, "communicators");
        for (const auto& [row, record] : rows) {
            const uint64_t taken = record.next_sequence;
            expect(taken == next[0] || taken == next[0] + 1, "numbers taken: " + std::to_string(taken));
            image_.for_each_peer(record, [&](int32_t peer, uint64_t sent, uint64_t received) {
                expect(peer == kPeer && received == 0 && (sent == next[1] || sent == next[1] + 1), "numbers of sends");
            });
        }
    }

    void markers() {
        uint64_t told = 0;
        const auto losses = image_.for_each_marker([&](uint64_t ticket, const format::MarkerEntry& entry) {
            ++told;
            const bool end = ticket % 2 == 1;
            expect(entry.kind == (end ? format::MarkerKind::kSpanEnd : format::MarkerKind::kSpanBegin) &&
                       image_.text(entry.name) == span_of(ticket / 2 + 1) && entry.ticks != 0 &&
                       (entry.value != 0) == end && entry.depth == 0 && entry.span == ticket / 2 + 1 &&
                       (image_.marker_site(entry.site).key == 0) == end,
                   "marker " + std::to_string(ticket));
        });
        count("markers", told, losses);
        const auto open = image_.open_spans();
        expect(open.size() <= 1, "spans that are open");
        for (const format::OpenSpanRecord& span : open) {
            expect(image_.text(span.name) == span_of(span.id) && span.begin_ticks != 0 && span.parent == 0 &&
                       span.task == 0 && span.thread != 0 && image_.marker_site(span.site).key != 0,
                   "open span " + std::to_string(span.id));
        }
    }

    void cuda_calls() {
        const auto losses = image_.for_each_cuda_call([&](uint64_t ticket, const format::CudaCallEntry& entry) {
            expect(entry.object == reinterpret_cast<uint64_t>(address_of(6, ticket + 1)) && entry.entered_ticks != 0 &&
                       (entry.result == -1 || entry.returned_ticks != 0) &&
                       image_.text(entry.span) == span_of(ticket + 1) && !image_.text(entry.name).empty(),
                   "CUDA call " + std::to_string(ticket));
        });
        expect(losses.torn <= 1, "CUDA calls: torn");
    }

    // Inside a call: then object and ticket are that call's.
    void threads() {
        for (const format::ThreadRecord& row : image_.threads()) {
            if (row.entered_ticks == 0) {
                continue;
            }
            const uint64_t community = image_.communicators().front().second.id;
            const bool of_cuda = row.object == reinterpret_cast<uint64_t>(address_of(6, kLastRound));
            const uint64_t newest = of_cuda ? kLastRound : 2 * kLastRound + 1;  // its ticket + 1
            expect(!image_.text(row.call).empty() && (of_cuda || row.object == community) &&
                       (row.ticket == newest || (!of_cuda && row.ticket == newest - 1)),
                   "the thread's call");
        }
    }

    const Bytes& bytes_;
    RingImage image_;
    std::string problems_;
};

// --- the process that is killed -------------------------------------------------------------------------------------

std::filesystem::path ring_of(pid_t pid) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(getenv("TITANTRACE_RING_DIR"))) {
        if (file.path().extension() == ".ring" &&
            file.path().filename().string().starts_with(std::to_string(pid) + "-")) {
            return file.path();
        }
    }
    FAIL("the process left no ring");
    return {};
}

class Child {
  public:
    Child() : pid_(fork()) {
        if (pid_ == 0) {
            if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
                _exit(kMayNotTrace);
            }
            void* const comm = test::create(1, kSize, 0);
            for (uint64_t round = 1; round <= kLastRound; ++round) {
                for (const auto& call : kRound) {
                    if (round == kLastRound) {
                        raise(SIGSTOP);
                    }
                    call(comm, round);
                }
            }
            raise(SIGSTOP);
            _exit(0);
        }
        waitpid(pid_, &status_, 0);
    }
    ~Child() {
        if (may_be_traced()) {
            ring();
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    bool may_be_traced() const { return !WIFEXITED(status_); }
    pid_t pid() const { return pid_; }

    // One instruction. False: the call is over.
    bool step() { return go_on(PTRACE_SINGLESTEP) == SIGTRAP; }
    void finish_call() { REQUIRE(go_on(PTRACE_CONT) == SIGSTOP); }

    // What it leaves behind; it is killed where it stands.
    Bytes ring() {
        if (!WIFSIGNALED(status_)) {
            kill(pid_, SIGKILL);
            while (!WIFSIGNALED(status_) && waitpid(pid_, &status_, 0) == pid_) {
            }
            const std::filesystem::path path = ring_of(pid_);
            std::ifstream file(path, std::ios::binary);
            const std::string text{std::istreambuf_iterator<char>(file), {}};
            const auto bytes = std::as_bytes(std::span(text));
            left_.assign(bytes.begin(), bytes.end());
            std::filesystem::remove(path);
        }
        return left_;
    }

  private:
    int go_on(__ptrace_request how) {
        const bool stopped =
            ptrace(how, pid_, nullptr, nullptr) == 0 && waitpid(pid_, &status_, 0) == pid_ && WIFSTOPPED(status_);
        REQUIRE(stopped);
        return WSTOPSIG(status_);
    }

    pid_t pid_;
    int status_ = 0;
    Bytes left_;
};

struct VisibleStep {
    size_t call;
    uint64_t instructions;
};

// Stops a process wherever its ring has become another one, and shows what it would leave behind if it were killed
// there: the file, which nobody writes any more then. The header is left out, where the tracer's own thread writes: it
// is as in `quiet`.
template <typename Look>
void visit_visible_steps(const Bytes& quiet, Look look) {
    Child child;
    const std::filesystem::path path = ring_of(child.pid());
    const size_t bytes = std::filesystem::file_size(path);
    constexpr size_t kFrom = offsetof(format::RingHeader, cursors);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const auto* const ring = static_cast<const std::byte*>(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0));
    REQUIRE(ring != MAP_FAILED);
    close(file);
    Bytes left = quiet;
    REQUIRE(left.size() == bytes);
    memcpy(left.data() + kFrom, ring + kFrom, bytes - kFrom);
    for (size_t call = 0; call < std::size(kRound); ++call) {
        for (uint64_t instructions = 1; child.step(); ++instructions) {
            if (memcmp(left.data() + kFrom, ring + kFrom, bytes - kFrom) != 0) {
                memcpy(left.data() + kFrom, ring + kFrom, bytes - kFrom);
                look(VisibleStep{call, instructions}, left);
            }
        }
    }
    munmap(const_cast<std::byte*>(ring), bytes);
}

void set_up() {
    for (const char* const ring :
         {"TITANTRACE_COLLECTIVES", "TITANTRACE_CUDA_CALLS", "TITANTRACE_MARKERS", "TITANTRACE_STREAM_WORK"}) {
        setenv(ring, std::to_string(kSlots).c_str(), 1);
    }
    setenv("TITANTRACE_DUMP_ON", "none", 1);
    setenv("TITANTRACE_HEALTH_S", "0", 1);  // its thread makes names of its own, at its own time
    REQUIRE(chdir("/") == 0);               // of a repository around it the watch thread labels the commit, likewise
    if (!Child().may_be_traced()) {
        printf("skipped: this system lets no process trace its child\n");
        exit(kMayNotTrace);
    }
}

}  // namespace

TEST_CASE("a process killed at any visible step of a record leaves a ring in which all that is told is whole") {
    set_up();
    const Bytes quiet = Child().ring();
    const std::set<std::string> texts = Judge(quiet).texts();
    REQUIRE(Judge(quiet).problems(texts) == "");
    size_t steps = 0;
    std::map<size_t, std::vector<uint64_t>> seen;  // by call
    visit_visible_steps(quiet, [&](const VisibleStep& step, const Bytes& left) {
        ++steps;
        seen[step.call].push_back(step.instructions);
        CAPTURE(step.call);
        CAPTURE(step.instructions);
        CHECK(Judge(left).problems(texts) == "");
    });
    CHECK(steps > 60);  // records with their fields, their numbers, a new text, what the thread is inside of
    // And killed in earnest, once in each call.
    for (const auto& [call, instructions] : seen) {
        Child child;
        for (size_t before = 0; before < call; ++before) {
            child.finish_call();
        }
        for (uint64_t i = 0; i < instructions[instructions.size() / 2]; ++i) {
            child.step();
        }
        CAPTURE(call);
        CHECK(Judge(child.ring()).problems(texts) == "");
    }
}

TEST_CASE("a slot that is called complete and is not is found out") {
    set_up();
    Bytes ring = Child().ring();
    const std::set<std::string> texts = Judge(ring).texts();
    const auto header = [&] {
        format::RingHeader copy;
        memcpy(&copy, ring.data(), sizeof(copy));
        return copy;
    }();
    for (const format::RegionDescriptor& region : header.regions) {
        if (!format::is_ring(region.kind) || region.kind > format::RegionKind::kMarkers) {
            continue;
        }
        Bytes torn = ring;
        std::byte* const slots = torn.data() + region.offset_bytes;
        // Of a lap before in all fields but its number.
        memcpy(slots + sizeof(uint64_t), slots + region.stride_bytes * 3 + sizeof(uint64_t),
               region.stride_bytes - sizeof(uint64_t));
        CHECK(Judge(torn).problems(texts) != "");
    }
}
