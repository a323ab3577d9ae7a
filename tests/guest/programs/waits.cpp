// Programs whose main thread waits for a signal, and takes the first return of that wait for the signal.
#include <semaphore.h>
#include <signal.h>

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
    std::thread worker([waiter] {
        client::say("ready");
        client::await("go");
        say("work finished");
        pthread_kill(waiter, SIGUSR2);
    });
    wait();
    say(signalled ? "main was told to stop" : "main stops without being told");
    if (signalled == 0) {
        _exit(0);
    }
    worker.join();
    return 0;
}

int in_pause() { return work_until(pause); }

int in_semaphore() {
    return work_until([] {
        sem_t never;
        sem_init(&never, 0, 0);
        while (signalled == 0 && sem_wait(&never) == 0) {
        }
    });
}

constexpr client::Scenario kScenarios[] = {{"pause", in_pause}, {"semaphore", in_semaphore}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
