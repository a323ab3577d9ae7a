#include "children.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/proc_thread.h"
#include "base/process.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

constexpr size_t kMostThreads = 1024;

}  // namespace

void Children::look(Ask ask, uint64_t now_realtime_ns) {
    note_ended(now_realtime_ns);
    if (ask == Ask::kMainThread) {
        add_of(getpid());
        return;
    }
    pid_t tids[kMostThreads];
    size_t left_out = 0;
    const size_t count = list_threads(tids, kMostThreads, left_out);
    for (size_t i = 0; i < count; ++i) {
        add_of(tids[i]);
    }
}

void Children::note_ended(uint64_t now_realtime_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < living_count_; ++i) {
        ProcessStat stat{};
        const bool there = read_process_stat(living_[i].pid, stat) && stat.start_ticks == living_[i].start_ticks;
        if (there && !is_over(stat)) {
            copy_text(living_[i].name, sizeof(living_[i].name), stat.name);  // a worker names itself
            living_[kept++] = living_[i];
        } else {
            end(living_[i], now_realtime_ns, there ? stat.wait_status : kUnknownStatus);
        }
    }
    living_count_ = kept;
}

void Children::add_of(pid_t tid) {
    pid_t pids[kMost];
    const size_t count = list_children(tid, pids, kMost);
    for (size_t i = 0; i < count; ++i) {
        add(pids[i]);
    }
}

void Children::add(pid_t pid) {
    const auto has_pid = [&](const Child& child) { return child.pid == pid; };
    ProcessStat stat{};
    if (living_count_ == kMost || std::any_of(living_, living_ + living_count_, has_pid) ||
        !read_process_stat(pid, stat) || is_over(stat)) {
        return;
    }
    Child& child = living_[living_count_++];
    child = {pid, stat.start_ticks, {}, 0, 0};
    copy_text(child.name, sizeof(child.name), stat.name);
}

void Children::end(const Child& child, uint64_t now_realtime_ns, int32_t wait_status) {
    if (ended_count_ == kMostEnded) {
        std::move(ended_ + 1, ended_ + kMostEnded, ended_);
        --ended_count_;
    }
    ended_[ended_count_] = child;
    ended_[ended_count_].ended_realtime_ns = now_realtime_ns;
    ended_[ended_count_++].wait_status = wait_status;
}

}  // namespace titan::tracer
