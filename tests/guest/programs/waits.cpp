// Programs whose main thread waits for a signal, and takes the first return of that wait for the signal.
#include <semaphore.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "client.h"

using client::say;

namespace {

volatile sig_atomic_t signalled = 0;

// The work is done by a thread; main only waits until somebody tells it to stop.
template <typename Wait>
int work_until(Wait wait) {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    struct sigaction action {};  // without SA_RESTART: the wait shall end
    action.sa_handler = [](int) { signalled = 1; };
    sigaction(SIGUSR2, &action, nullptr);
    const pthread_t waiter = pthread_self();
    std::atomic<bool> told = false;
    std::thread worker([&told, waiter] {
        client::say("ready");
        client::await("go");
        say("work finished");
        while (!told) {  // the first one may come before the main thread waits
            pthread_kill(waiter, SIGUSR2);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    });
    wait();
    told = true;
    say(signalled ? "main was told to stop" : "main stops without being told");
    if (signalled == 0) {
        _exit(0);
    }
    worker.join();
    return 0;
}

int in_pause() { return work_until(pause); }

int in_suspend() {
    return work_until([] {
        sigset_t none;
        sigemptyset(&none);
        sigsuspend(&none);
    });
}

int in_semaphore() {
    return work_until([] {
        sem_t never;
        sem_init(&never, 0, 0);
        while (signalled == 0 && sem_wait(&never) == 0) {
        }
    });
}

// The usual signal thread: all signals are blocked everywhere, and one thread takes what comes.
template <typename Take>
int signal_thread(Take take) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    std::thread taker([&] { say("signal %d: shutting down", take(all)); });
    say("ready");
    client::await("go");
    say("work finished");
    pthread_kill(taker.native_handle(), SIGUSR2);
    taker.join();
    r.leave();
    return 0;
}

int in_sigwait() {
    return signal_thread([](const sigset_t& all) {
        int number = 0;
        sigwait(&all, &number);
        return number;
    });
}

int in_sigtimedwait() {
    return signal_thread([](const sigset_t& all) {
        const timespec long_s{1000, 0};
        return sigtimedwait(&all, nullptr, &long_s);
    });
}

int in_signalfd() {
    return signal_thread([](const sigset_t& all) {
        const int fd = signalfd(-1, &all, SFD_CLOEXEC);
        signalfd_siginfo info{};
        return read(fd, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : -errno;
    });
}

constexpr client::Scenario kScenarios[] = {{"pause", in_pause},         {"sigsuspend", in_suspend},
                                           {"semaphore", in_semaphore}, {"sigwait", in_sigwait},
                                           {"signalfd", in_signalfd},   {"sigtimedwait", in_sigtimedwait}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
