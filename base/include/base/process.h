// Reads what /proc tells about processes. Pids are reused, so a process is identified by its pid and start time.
// signal-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace titan {

struct ProcessStat {
    char state;            // of the main thread: R, S, D, T, t, Z, X
    pid_t parent;          // 0 none in this pid namespace
    uint64_t start_ticks;  // clock ticks since boot when it started, the same for readers of all time namespaces
    char name[20];
    int32_t wait_status;  // of a zombie: as wait() gives it, 0 also where the reader may not know it
    uint32_t threads;     // with the remains of the main thread
};

// Whether the process has ended. Where only the main thread has left (pthread_exit in main), the others run on.
inline bool is_over(const ProcessStat& stat) {
    return stat.state == 'X' || (stat.state == 'Z' && (stat.threads <= 1 || stat.wait_status != 0));
}

// False: there is no such process.
bool read_process_stat(pid_t pid, ProcessStat& stat);

// Opens /proc/PID/WHAT for reading. Of this process it is what the calling thread has: /proc/PID shows that of the main
// thread, which may have left, and where /proc belongs to another pid namespace, PID is someone else.
int open_proc(pid_t pid, const char* what);

// Clock ticks since boot when the process started (field 22 of /proc/PID/stat); 0 if there is none, and for a zombie:
// the remains of a killed rank that its launcher has not reaped are as dead as one that is gone.
uint64_t process_start_ticks(pid_t pid);

inline bool process_alive(pid_t pid, uint64_t start_ticks) {
    return start_ticks != 0 && process_start_ticks(pid) == start_ticks;
}

// Inode of this process's pid namespace, 0 unknown. Pids compare only inside one.
uint64_t pid_namespace_inode();

// The effective user. The owner of /proc/PID would be root where the process may not be dumped. False: there is none.
bool read_process_user(pid_t pid, uid_t& user);

// The id of this boot of the machine; empty if it cannot be read.
struct BootId {
    char text[40];
};
BootId read_boot_id();

// The value after "Key:" and blanks in a text of /proc; null if there is no such line.
const char* proc_field(const char* text, const char* key);

// Reads a small file whole, as a NUL-terminated text without the final newline; returns its size, 0 when it cannot.
size_t read_small_file(int dir_fd, const char* path, char* out, size_t capacity_bytes);

}  // namespace titan
