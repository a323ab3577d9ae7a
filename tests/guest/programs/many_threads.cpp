// Programs with thousands of threads.
#include <pthread.h>

#include <atomic>
#include <vector>

#include "client.h"

using client::say;

namespace {

client::Rank* rank_of_all = nullptr;
std::atomic<int> begun{0}, finished{0};
std::atomic<bool> stop{false};

// Thousands that look at a file would be nothing but that: one looks, the others sleep.
pthread_barrier_t told;

void* idle(void*) {
    ++begun;
    pthread_barrier_wait(&told);
    return nullptr;
}

// Asks CUDA now and then, as a data loader does that copies to the device.
void* uses_cuda(void*) {
    cudaStream_t stream = nullptr;
    CUDA(cudaSetDevice(0));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamSynchronize(stream));
    ++begun;
    pthread_barrier_wait(&told);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
    return nullptr;
}

// All threads in turn use the one communicator.
void* uses_nccl(void*) {
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    rank_of_all->reduce_and_sync();
    pthread_mutex_unlock(&turn);
    ++begun;
    pthread_barrier_wait(&told);
    return nullptr;
}

void* short_lived(void*) {
    CUDA(cudaStreamSynchronize(rank_of_all->stream));
    ++finished;
    return nullptr;
}

pthread_t start(void* (*body)(void*)) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_t thread;
    const int error = pthread_create(&thread, &small, body, nullptr);
    if (error != 0) {
        say("this machine gives no more threads: %s", std::strerror(error));
        _exit(77);
    }
    return thread;
}

int with_threads(void* (*body)(void*)) {
    client::Rank r;
    rank_of_all = &r;
    r.join();
    r.reduce_and_sync();
    const int count = client::number("GUEST_THREADS", 4000);
    pthread_barrier_init(&told, nullptr, count + 1);
    std::vector<pthread_t> threads;
    for (int i = 0; i < count; ++i) {
        threads.push_back(start(body));
    }
    while (begun < count) {
        usleep(5000);
    }
    say("ready");
    client::await("go");
    pthread_barrier_wait(&told);
    for (const pthread_t thread : threads) {
        pthread_join(thread, nullptr);
    }
    r.reduce_and_sync();
    r.leave();
    say("%d threads", count);
    return 0;
}

int all_idle() { return with_threads(idle); }
int all_cuda() { return with_threads(uses_cuda); }
int all_nccl() { return with_threads(uses_nccl); }

// Threads begin and end all the time, also while a dump is made.
int churn() {
    client::Rank r;
    rank_of_all = &r;
    r.join();
    r.reduce_and_sync();
    pthread_t makers[2];
    for (pthread_t& maker : makers) {
        REQUIRE(pthread_create(
                    &maker, nullptr,
                    [](void*) -> void* {
                        while (!stop) {
                            pthread_t some[50];
                            for (pthread_t& one : some) {
                                one = start(short_lived);
                            }
                            for (const pthread_t one : some) {
                                pthread_join(one, nullptr);
                            }
                        }
                        return nullptr;
                    },
                    nullptr) == 0);
    }
    while (finished < 2000) {
        usleep(1000);
    }
    say("ready");
    client::await("go");
    stop = true;
    for (const pthread_t maker : makers) {
        pthread_join(maker, nullptr);
    }
    r.reduce_and_sync();
    r.leave();
    say("all threads ended");
    return 0;
}

constexpr client::Scenario kScenarios[] = {
    {"idle", all_idle}, {"cuda", all_cuda}, {"nccl", all_nccl}, {"churn", churn}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
