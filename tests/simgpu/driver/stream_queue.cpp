#include "stream_queue.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <new>
#include <utility>

namespace simgpu {

std::shared_ptr<StreamQueue> StreamQueue::start() {
    auto queue = std::make_shared<StreamQueue>();
    // Signals belong to the program's threads, never to the "device".
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    auto* self = new std::shared_ptr<StreamQueue>(queue);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int failed = pthread_create(
        &thread, &attributes,
        [](void* raw) -> void* {
            pthread_setname_np(pthread_self(), "simgpu-stream");
            std::unique_ptr<std::shared_ptr<StreamQueue>> own(static_cast<std::shared_ptr<StreamQueue>*>(raw));
            (*own)->run();
            return nullptr;
        },
        self);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed) {
        delete self;
        throw std::bad_alloc();
    }
    return queue;
}

// Nobody is woken under the mutex, only to wait for it: most of the futex calls of a job came from that.
uint64_t StreamQueue::enqueue(Work work) {
    std::unique_lock lock(mutex_);
    pending_.push_back(std::move(work));
    const uint64_t ticket = ++submitted_;
    lock.unlock();
    has_work_.notify_one();
    return ticket;
}

uint64_t StreamQueue::last_ticket() {
    std::lock_guard lock(mutex_);
    return submitted_;
}

bool StreamQueue::reached(uint64_t ticket) {
    std::lock_guard lock(mutex_);
    return finished_ >= ticket;
}

void StreamQueue::wait(uint64_t ticket) {
    std::unique_lock lock(mutex_);
    while (finished_ < ticket) {
        next_awaited_ = std::min(next_awaited_, ticket);
        progressed_.wait(lock);
    }
}

void StreamQueue::close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    has_work_.notify_one();
}

void StreamQueue::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        has_work_.wait(lock, [&] { return closed_ || !pending_.empty(); });
        if (pending_.empty()) {
            return;
        }
        Work work = std::move(pending_.front());
        pending_.pop_front();
        lock.unlock();
        work();
        work = nullptr;  // captured resources go before anyone learns that the work is done
        lock.lock();
        if (++finished_ >= next_awaited_) {
            next_awaited_ = kNobodyWaits;
            lock.unlock();
            progressed_.notify_all();
            lock.lock();
        }
    }
}

}  // namespace simgpu
