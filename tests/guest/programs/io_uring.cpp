// Programs that do their input and output through io_uring, and take what io_uring_enter returns as it is.
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "client.h"

using client::say;

namespace {

// One ring of 8 entries, by system calls alone.
struct Ring {
    int fd = -1;
    io_uring_params params{};
    char *sq = nullptr, *cq = nullptr;
    io_uring_sqe* sqes = nullptr;

    explicit Ring(unsigned flags = 0) {
        params.flags = flags;
        params.sq_thread_idle = 50;  // ms
        fd = static_cast<int>(syscall(SYS_io_uring_setup, 8, &params));
        if (fd < 0) {
            say("no io_uring: %s", std::strerror(errno));
            _exit(77);
        }
        sq = map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
        cq = map(params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
        sqes = reinterpret_cast<io_uring_sqe*>(map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    }
    char* map(size_t bytes, off_t offset) const {
        void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
        REQUIRE(mapped != MAP_FAILED);
        return static_cast<char*>(mapped);
    }
    static unsigned& word(char* ring, unsigned offset) { return *reinterpret_cast<unsigned*>(ring + offset); }

    void queue(const io_uring_sqe& entry) {
        unsigned& tail = word(sq, params.sq_off.tail);
        const unsigned slot = tail & word(sq, params.sq_off.ring_mask);
        sqes[slot] = entry;
        word(sq, params.sq_off.array + slot * sizeof(unsigned)) = slot;
        std::atomic_ref(tail).store(tail + 1, std::memory_order_release);
    }
    // One call, no second try: the number of entries taken, or -errno.
    int enter(unsigned submit, unsigned wait, unsigned flags, const void* argument = nullptr, size_t bytes = 0) const {
        const long result = syscall(SYS_io_uring_enter, fd, submit, wait, flags, argument, bytes);
        return result < 0 ? -errno : static_cast<int>(result);
    }
    int completions() const { return static_cast<int>(word(cq, params.cq_off.tail) - word(cq, params.cq_off.head)); }
    // The result of the oldest completion, or -ENODATA.
    int next() {
        unsigned& head = word(cq, params.cq_off.head);
        if (std::atomic_ref(word(cq, params.cq_off.tail)).load(std::memory_order_acquire) == head) {
            return -ENODATA;
        }
        const auto* const cqes = reinterpret_cast<io_uring_cqe*>(cq + params.cq_off.cqes);
        const int result = cqes[head & word(cq, params.cq_off.ring_mask)].res;
        std::atomic_ref(head).store(head + 1, std::memory_order_release);
        return result;
    }
};

io_uring_sqe read_of(int fd, void* to, unsigned bytes, unsigned char flags = 0) {
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_READ;
    entry.flags = flags;
    entry.fd = fd;
    entry.addr = reinterpret_cast<uint64_t>(to);
    entry.len = bytes;
    entry.off = static_cast<uint64_t>(-1);
    return entry;
}

struct Pipe {
    int ends[2] = {-1, -1};
    Pipe() { REQUIRE(pipe(ends) == 0); }
    void write_byte() const { REQUIRE(write(ends[1], "x", 1) == 1); }
};

client::Rank& rank() {
    static client::Rank r;
    if (r.comm == nullptr) {
        r.join();
        r.reduce_and_sync();
    }
    return r;
}

int finish() {
    rank().reduce_and_sync();
    rank().leave();
    say("finished");
    return 0;
}

// The main thread sleeps in the kernel until its read is done; another thread has the bytes once the test says go.
int wait_for_read(unsigned setup_flags, unsigned char entry_flags) {
    rank();
    Ring ring(setup_flags);
    Pipe pipe;
    char byte = '-';
    ring.queue(read_of(pipe.ends[0], &byte, 1, entry_flags));
    std::thread writer([&pipe] {
        usleep(100'000);  // by then the main thread is in the kernel
        say("ready");
        client::await("go");
        usleep(200'000);
        pipe.write_byte();
    });
    const bool polled = (setup_flags & IORING_SETUP_SQPOLL) != 0;
    const int entered = ring.enter(polled ? 0 : 1, 1, IORING_ENTER_GETEVENTS | (polled ? IORING_ENTER_SQ_WAKEUP : 0));
    say("io_uring_enter %d, read %d, byte %c", entered, ring.next(), byte);
    writer.join();
    return finish();
}

int in_wait() { return wait_for_read(0, 0); }
// A thread of the kernel submits: it belongs to this process.
int in_sqpoll() { return wait_for_read(IORING_SETUP_SQPOLL, 0); }
// A worker thread of the kernel does the read: it belongs to this process, too.
int in_worker() { return wait_for_read(0, IOSQE_ASYNC); }

// Everything is submitted first, so that nothing but the wait can be cut off.
int in_bare_wait() {
    rank();
    Ring ring;
    Pipe pipe;
    char byte = '-';
    ring.queue(read_of(pipe.ends[0], &byte, 1));
    say("submitted %d", ring.enter(1, 0, 0));
    std::thread writer([&pipe] {
        usleep(100'000);
        say("ready");
        client::await("go");
        usleep(200'000);
        pipe.write_byte();
    });
    const int waited = ring.enter(0, 1, IORING_ENTER_GETEVENTS);
    say("io_uring_enter %d, read %d, byte %c", waited, ring.next(), byte);
    writer.join();
    return finish();
}

// Busy with the ring from several threads while dumps come: 20,000 no-ops and reads, each result is looked at.
int in_traffic() {
    rank();
    std::atomic<bool> stop{false};
    std::atomic<int> bad{0};
    std::thread users[3];
    for (std::thread& user : users) {
        user = std::thread([&] {
            Ring ring;
            Pipe pipe;
            while (!stop) {
                char byte = '-';
                pipe.write_byte();
                ring.queue(read_of(pipe.ends[0], &byte, 1));
                const int entered = ring.enter(1, 1, IORING_ENTER_GETEVENTS);
                const int result = ring.next();
                bad += entered != 1 || result != 1 || byte != 'x';
            }
        });
    }
    say("ready");
    client::await("go");
    stop = true;
    for (std::thread& user : users) {
        user.join();
    }
    say("%d bad results", bad.load());
    return finish();
}

constexpr client::Scenario kScenarios[] = {{"wait", in_wait},
                                           {"bare_wait", in_bare_wait},
                                           {"sqpoll", in_sqpoll},
                                           {"worker", in_worker},
                                           {"traffic", in_traffic}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
