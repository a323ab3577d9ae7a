// A thread in each kind of wait that a program may have; none has a reason to end.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>
#include <vector>

#include "client.h"

using client::say;

namespace {

constexpr timespec kLong{1000, 0};
constexpr int kLongMs = 1'000'000;
int semaphores = -1, messages = -1;
pid_t child = -1;

struct Wait {
    const char* name;
    int (*begin)();  // what the call answers: none is expected to return
};

int futex_wait(int operation, const timespec* limit) {
    static uint32_t word = 0;
    return static_cast<int>(syscall(SYS_futex, &word, operation, 0, limit, nullptr, ~0U));
}

int receive(bool with_limit) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    const timeval limit{1000, 0};
    if (with_limit) {
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }
    char byte;
    return static_cast<int>(recv(pair[0], &byte, 1, 0));
}

// A part has come, and the rest has not.
int receive_all() {
    int pair[2];
    char bytes[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[1], bytes, 1) == 1);
    return static_cast<int>(recv(pair[0], bytes, sizeof(bytes), MSG_WAITALL));
}

// A part is written, the rest waits for a reader.
int write_much() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const std::vector<char> bytes(1 << 20);
    return static_cast<int>(write(ends[1], bytes.data(), bytes.size()));
}

template <typename Make>
int read_of(Make make) {
    uint64_t value;
    const int fd = make();
    REQUIRE(fd >= 0);
    return static_cast<int>(read(fd, &value, sizeof(value)));
}

constexpr Wait kWaits[] = {
    {"poll", [] { return poll(nullptr, 0, kLongMs); }},
    {"ppoll", [] { return ppoll(nullptr, 0, &kLong, nullptr); }},
    {"select",
     [] {
         timeval limit{1000, 0};
         return select(0, nullptr, nullptr, nullptr, &limit);
     }},
    {"pselect", [] { return pselect(0, nullptr, nullptr, nullptr, &kLong, nullptr); }},
    {"epoll_wait",
     [] {
         epoll_event event;
         return epoll_wait(epoll_create1(0), &event, 1, kLongMs);
     }},
    {"nanosleep", [] { return nanosleep(&kLong, nullptr); }},
    {"clock_nanosleep", [] { return clock_nanosleep(CLOCK_MONOTONIC, 0, &kLong, nullptr); }},
    {"futex", [] { return futex_wait(FUTEX_WAIT, nullptr); }},
    {"futex with a limit", [] { return futex_wait(FUTEX_WAIT, &kLong); }},
    {"futex with a mask", [] { return futex_wait(FUTEX_WAIT_BITSET, nullptr); }},
    {"sem_timedwait",
     [] {
         sem_t never;
         sem_init(&never, 0, 0);
         timespec until{};
         clock_gettime(CLOCK_REALTIME, &until);
         until.tv_sec += 1000;
         return sem_timedwait(&never, &until);
     }},
    {"semop",
     [] {
         sembuf take{0, -1, 0};
         return semop(semaphores, &take, 1);
     }},
    {"msgrcv",
     [] {
         struct {
             long type;
             char text[8];
         } message;
         return static_cast<int>(msgrcv(messages, &message, sizeof(message.text), 0, 0));
     }},
    {"recv", [] { return receive(false); }},
    {"recv with a limit", [] { return receive(true); }},
    {"recv of all", receive_all},
    {"write of much", write_much},
    {"read of an eventfd", [] { return read_of([] { return eventfd(0, 0); }); }},
    {"read of a timerfd",
     [] {
         return read_of([] {
             const int fd = timerfd_create(CLOCK_MONOTONIC, 0);
             const itimerspec far{{0, 0}, kLong};
             timerfd_settime(fd, 0, &far, nullptr);
             return fd;
         });
     }},
    {"accept",
     [] {
         const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
         const sockaddr_un nameless{AF_UNIX, {}};
         REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&nameless), sizeof(sa_family_t)) == 0);
         REQUIRE(listen(listener, 1) == 0);
         return accept(listener, nullptr, nullptr);
     }},
    {"waitpid", [] { return waitpid(child, nullptr, 0); }},
};

std::atomic<bool> over{false};

int all_waits() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    child = fork();
    if (child == 0) {
        client::await("over");
        _exit(0);
    }
    for (const Wait& wait : kWaits) {
        std::thread([&wait] {
            const int result = wait.begin();
            const int error = errno;
            if (!over) {
                say("%s ended early: %d, %s", wait.name, result, result < 0 ? strerror(error) : "");
            }
        }).detach();
    }
    usleep(300'000);  // by then they wait
    say("ready");
    client::await("go");
    over = true;
    say("done");
    semctl(semaphores, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, nullptr);
    kill(child, SIGKILL);
    _exit(0);
}

constexpr client::Scenario kScenarios[] = {{"all", all_waits}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
