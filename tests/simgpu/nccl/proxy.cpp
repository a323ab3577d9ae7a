#include "proxy.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "profiler_plugin.h"

namespace simgpu {

uint64_t device_timer() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void OpProgress::start(int channels) {
    for (int i = 0; i < channels; ++i) {
        started[i] = device_timer();
    }
}

void OpProgress::stop(int first_channel, int channels) {
    for (int i = first_channel; i < first_channel + channels; ++i) {
        stopped[i] = device_timer();
    }
}

namespace {

constexpr auto kPoll = std::chrono::microseconds(200);

class ProxyThread : public Proxy {
  public:
    explicit ProxyThread(Core& core) : core_(core) {
        // Signals are the program's.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        thread_ = std::thread([this] {
            pthread_setname_np(pthread_self(), "NCCL Progress 0");
            run();
        });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    ~ProxyThread() override {
        {
            std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    void append(std::vector<ProxyItem> items) override {
        std::lock_guard lock(mutex_);
        for (ProxyItem& item : items) {
            incoming_.push_back(std::move(item));
        }
        idle_ = false;
        changed_.notify_all();
    }

    void finish() override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return idle_; });
    }

  private:
    void run();
    void control(abi::State state, int appended = 0);
    bool sleep_until_work();
    void take(std::vector<ProxyItem> items);
    bool advance(ProxyItem& item);
    bool watch_kernel(ProxyItem& item);
    bool watch_transfer(ProxyItem& item);
    void open_step(ProxyItem& item);
    void close_step(ProxyItem& item);

    Core& core_;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<ProxyItem> incoming_;
    std::vector<ProxyItem> active_;
    bool over_ = false, idle_ = true;
};

// An event of the thread itself, with one state.
void ProxyThread::control(abi::State state, int appended) {
    if (plugin_mask() & abi::kProxyCtrl) {
        void* event = nullptr;
        plugin_start(core_, &event, {.type = abi::kProxyCtrl});
        ProfilerStateArgs args;
        args.appended = appended;
        plugin_record(event, state, args);
        plugin_stop(event);
    }
}

bool ProxyThread::sleep_until_work() {
    std::unique_lock lock(mutex_);
    if (incoming_.empty() && !over_) {
        idle_ = true;
        changed_.notify_all();
        lock.unlock();
        control(abi::kCtrlSleep);
        lock.lock();
        changed_.wait(lock, [&] { return over_ || !incoming_.empty(); });
        lock.unlock();
        control(abi::kCtrlWakeup);
    }
    return !over_;
}

void ProxyThread::take(std::vector<ProxyItem> items) {
    if (items.empty()) {
        return;
    }
    for (ProxyItem& item : items) {
        if (item.kind != ProxyItem::kKernel) {
            plugin_start(core_, &item.op_event,
                         {.type = abi::kProxyOp,
                          .parent = item.task,
                          .rank = core_.rank,
                          .root = item.peer,
                          .channel = item.channel,
                          .steps = item.progress->steps,
                          .chunk_bytes = static_cast<int>(item.progress->chunk_bytes),
                          .is_send = item.kind == ProxyItem::kSend});
        }
        active_.push_back(std::move(item));
    }
    control(abi::kCtrlAppendEnd, static_cast<int>(items.size()));
}

void ProxyThread::run() {
    while (!active_.empty() || sleep_until_work()) {
        std::vector<ProxyItem> arrived;
        {
            std::lock_guard lock(mutex_);
            if (over_) {
                return;
            }
            arrived.swap(incoming_);
        }
        take(std::move(arrived));
        std::erase_if(active_, [this](ProxyItem& item) { return advance(item); });
        if (!active_.empty()) {
            std::this_thread::sleep_for(kPoll);
        }
    }
}

bool ProxyThread::advance(ProxyItem& item) {
    return item.kind == ProxyItem::kKernel ? watch_kernel(item) : watch_transfer(item);
}

bool ProxyThread::watch_kernel(ProxyItem& item) {
    const uint64_t started = item.progress->started[item.channel];
    if (started && !item.saw_kernel) {
        item.saw_kernel = true;
        plugin_start(core_, &item.op_event,
                     {.type = abi::kKernelCh, .parent = item.task, .channel = item.channel, .timer = started});
        return false;
    }
    const uint64_t stopped = item.progress->stopped[item.channel];
    if (!stopped) {
        return false;
    }
    ProfilerStateArgs args;
    args.timer = stopped;
    plugin_record(item.op_event, abi::kKernelChStop, args);
    plugin_stop(item.op_event);
    return true;
}

void ProxyThread::open_step(ProxyItem& item) {
    item.step_open = true;
    item.step_event = nullptr;
    if (item.mask & (abi::kProxyStep | abi::kNetPlugin)) {
        plugin_start(core_, &item.step_event,
                     {.type = abi::kProxyStep, .parent = item.op_event, .rank = core_.rank, .steps = item.step});
    }
    plugin_record(item.step_event, item.kind == ProxyItem::kSend ? abi::kSendGpuWait : abi::kRecvWait);
}

void ProxyThread::close_step(ProxyItem& item) {
    ProfilerStateArgs args;
    args.bytes = item.progress->chunk_bytes;
    if (item.kind == ProxyItem::kSend) {
        plugin_record(item.step_event, abi::kSendWait, args);
    } else {
        plugin_record(item.step_event, abi::kRecvFlushWait, args);
        plugin_record(item.step_event, abi::kRecvGpuWait, args);
    }
    plugin_stop(item.step_event);
    item.step_open = false;
    ++item.step;
}

bool ProxyThread::watch_transfer(ProxyItem& item) {
    OpProgress& progress = *item.progress;
    if (!item.in_progress) {
        item.in_progress = true;
        plugin_record(item.op_event, abi::kProxyOpInProgress);
        open_step(item);
    }
    if (progress.started[item.channel] && !item.saw_kernel) {
        item.saw_kernel = true;
        if (item.kind == ProxyItem::kSend) {
            plugin_record(item.step_event, abi::kSendPeerWait);
        }
    }
    const int done = progress.stopped[item.channel] ? progress.steps : progress.steps_done.load();
    while (item.step < done) {
        if (!item.step_open) {
            open_step(item);
        }
        close_step(item);
    }
    if (item.step < progress.steps) {
        if (!item.step_open) {
            open_step(item);
        }
        return false;
    }
    plugin_stop(item.op_event);
    return true;
}

}  // namespace

std::unique_ptr<Proxy> Proxy::start(Core& core) { return std::make_unique<ProxyThread>(core); }

}  // namespace simgpu
