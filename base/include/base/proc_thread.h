// Reads what /proc tells about one thread, of this process or another. No allocation.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace titan {

struct ProcThread {
    char name[20];
    char state;                // R, S, D, T, t, Z
    uint64_t blocked_signals;  // bit n - 1: signal n
    int seccomp_mode;          // 0 none, 1 strict, 2 filter
    uint64_t seccomp_filters;  // how many; 0 also where Linux before 5.9 does not tell
    char wait_channel[48];     // empty: unknown
    int64_t system_call;       // -1 none, -2 unknown
    uint64_t arguments[6];
    uint64_t instruction;    // where it continues after its wait; 0: it runs, or the system does not tell
    uint64_t stack_pointer;  // there
    uint64_t switches;       // number of times that it left a processor
    uint64_t waits;          // of these, to wait
    uint64_t cpu_ns;
};

inline constexpr pid_t kThisProcess = 0;

// False: there is no such thread any more.
bool read_proc_thread(pid_t tid, ProcThread& thread, pid_t process = kThisProcess);

// A thread that read_proc_thread found waiting: it has not run since, so that what was read of its stack meanwhile is
// right.
bool waits_since(pid_t tid, const ProcThread& seen);

// The processor time of a thread of this process, exact also while it runs; 0 unknown.
uint64_t thread_cpu_ns(pid_t tid);

// Thread ids of the process, at most `capacity`; `left_out`: how many more there are.
size_t list_threads(pid_t* tids, size_t capacity, size_t& left_out, pid_t process = kThisProcess);

// The processes that this thread of ours started and that have not been waited for, at most `capacity`; zombies, too.
size_t list_children(pid_t tid, pid_t* pids, size_t capacity);

}  // namespace titan
