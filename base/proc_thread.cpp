#include "base/proc_thread.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"

namespace titan {
namespace {

constexpr size_t kStatusBytes = 8192;  // masks of thousands of processors

void write_task_dir(pid_t process, TextWriter& path) {
    if (process == kThisProcess) {
        path.text("/proc/self/task");
    } else {
        path.format("/proc/%d/task", process);
    }
}

struct Thread {
    pid_t process;
    pid_t tid;
};

size_t read_of_thread(Thread thread, const char* what, char* out, size_t capacity_bytes) {
    char path[64];
    TextWriter writer(path, sizeof(path));
    write_task_dir(thread.process, writer);
    writer.format("/%d/%s", thread.tid, what);
    return read_small_file(AT_FDCWD, path, out, capacity_bytes);
}

uint64_t hex_at(const char* at) {
    uint64_t value = 0;
    for (; *at != '\0'; ++at) {
        const char c = *at;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            break;
        }
        value = value << 4 | static_cast<uint64_t>(digit);
    }
    return value;
}

uint64_t decimal_at(const char* at) {
    uint64_t value = 0;
    parse_u64(at, strspn(at, "0123456789"), value);
    return value;
}

// "202 0x7f01 0x80 0x0 ... SP PC", "running", or "-1 SP PC" of a thread that waits without a system call.
void read_system_call(Thread place, ProcThread& thread) {
    char text[256];
    thread.system_call = -2;
    if (read_of_thread(place, "syscall", text, sizeof(text)) == 0) {
        return;
    }
    const bool inside = text[0] >= '0' && text[0] <= '9';
    thread.system_call = inside ? static_cast<int64_t>(decimal_at(text)) : -1;
    const char* at = text;
    const auto take = [&at] {
        at = strstr(at, " 0x");
        at += at == nullptr ? 0 : 3;
        return at == nullptr ? 0 : hex_at(at);
    };
    for (uint64_t& argument : thread.arguments) {
        argument = inside && at != nullptr ? take() : 0;
    }
    thread.stack_pointer = at == nullptr ? 0 : take();
    thread.instruction = at == nullptr ? 0 : take();
}

uint64_t number_in(const char* status, const char* name) {
    const char* const number = proc_field(status, name);
    return number == nullptr ? 0 : decimal_at(number);
}

uint64_t waits_in(const char* status) { return number_in(status, "\nvoluntary_ctxt_switches:"); }

uint64_t switches_in(const char* status) {
    return waits_in(status) + number_in(status, "\nnonvoluntary_ctxt_switches:");
}

}  // namespace

bool read_proc_thread(pid_t tid, ProcThread& thread, pid_t process) {
    const Thread place{process, tid};
    thread = ProcThread{};
    char status[kStatusBytes];
    if (read_of_thread(place, "status", status, sizeof(status)) == 0) {
        return false;
    }
    if (const char* name = proc_field(status, "Name:")) {
        TextWriter(thread.name, sizeof(thread.name)).text(name, strcspn(name, "\n"));
    }
    const char* const state = proc_field(status, "\nState:");
    thread.state = state == nullptr ? '?' : *state;
    const char* const blocked = proc_field(status, "\nSigBlk:");
    thread.blocked_signals = blocked == nullptr ? 0 : hex_at(blocked);
    thread.seccomp_mode = static_cast<int>(number_in(status, "\nSeccomp:"));
    thread.seccomp_filters = number_in(status, "\nSeccomp_filters:");
    thread.switches = switches_in(status);
    thread.waits = waits_in(status);
    char text[128];
    if (read_of_thread(place, "wchan", text, sizeof(text)) != 0 && !same_text(text, "0")) {
        copy_text(thread.wait_channel, sizeof(thread.wait_channel), text);
    }
    if (read_of_thread(place, "schedstat", text, sizeof(text)) != 0) {
        thread.cpu_ns = decimal_at(text);
    }
    read_system_call(place, thread);
    return true;
}

bool waits_since(pid_t tid, const ProcThread& seen) {
    const Thread place{kThisProcess, tid};
    ProcThread now{};
    char status[kStatusBytes];
    // The order matters: a thread that ran when it was seen has left a processor by the time that it is found waiting.
    read_system_call(place, now);
    return now.instruction == seen.instruction && now.stack_pointer == seen.stack_pointer && now.instruction != 0 &&
           seen.switches != 0 && read_of_thread(place, "status", status, sizeof(status)) != 0 &&
           switches_in(status) == seen.switches;
}

uint64_t thread_cpu_ns(pid_t tid) {
    constexpr unsigned kOfThread = 4;
    constexpr unsigned kSchedulersClock = 2;
    timespec time{};
    const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(tid) << 3 | kOfThread | kSchedulersClock);
    return clock_gettime(clock, &time) != 0
               ? 0
               : static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

size_t list_threads(pid_t* tids, size_t capacity, size_t& left_out, pid_t process) {
    char path[32];
    TextWriter writer(path, sizeof(path));
    write_task_dir(process, writer);
    const Fd directory(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    size_t count = 0;
    left_out = 0;
    auto add = [&](const char* name) {
        uint64_t tid = 0;
        if (parse_u64(name, tid)) {
            if (count < capacity) {
                tids[count++] = static_cast<pid_t>(tid);
            } else {
                ++left_out;
            }
        }
        return true;
    };
    if (directory.valid()) {
        each_entry(directory.get(), add);
    }
    return count;
}

size_t list_children(pid_t tid, pid_t* pids, size_t capacity) {
    char text[4096];
    size_t count = 0;
    if (read_of_thread({kThisProcess, tid}, "children", text, sizeof(text)) == 0) {
        return 0;
    }
    for (const char* at = text; count < capacity; at += strspn(at, " ")) {
        const size_t digits = strspn(at, "0123456789");
        uint64_t pid = 0;
        if (digits == 0 || at[digits] == '\0' || !parse_u64(at, digits, pid)) {
            break;  // the last one may be cut off; the kernel ends each with a blank
        }
        pids[count++] = static_cast<pid_t>(pid);
        at += digits;
    }
    return count;
}

}  // namespace titan
