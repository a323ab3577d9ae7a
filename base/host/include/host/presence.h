// Does a process still live? A pid alone says nothing: it is reused, and it belongs to a namespace and to one boot of a
// machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace titan {

enum class Presence {
    kRunning,
    kStopped,    // by SIGSTOP, a debugger or the freezer: it cannot answer
    kZombie,     // dead; its parent has not looked yet
    kGone,       // dead
    kElsewhere,  // in another container, whose pids mean nothing here; its heart beats
    kUnknown,    // of another machine or an earlier boot
};

constexpr bool is_gone(Presence presence) { return presence == Presence::kZombie || presence == Presence::kGone; }
constexpr bool is_alive(Presence presence) { return !is_gone(presence) && presence != Presence::kUnknown; }

const char* presence_text(Presence presence);

struct ProcessIdentity {
    pid_t pid = 0;
    uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
    std::string_view boot_id;
    uint64_t pid_namespace = 0;  // inode of /proc/PID/ns/pid
};

// Now. `silent_ns`: since it last showed a sign of life, for one in another container.
Presence presence_of(const ProcessIdentity& process, int64_t silent_ns);

// What keeps a process that lives from running.
enum class Halt : uint8_t { kNone, kStopped, kTraced, kFrozen };

// For people.
std::string halt_text(Halt halt);
// As files have it: "stopped", "traced", "frozen"; empty, or any other word: none.
std::string_view halt_name(Halt halt);
Halt halt_named(std::string_view name);
// By the state of its main thread and the kernel's function that it waits in.
Halt halt_of(char state, std::string_view wait_channel);
Halt halt_of_process(pid_t pid);  // of our namespace
// By its /proc/PID/cgroup and the control groups below `root`: kernels from 6.1 on show a frozen process as what it was
// before.
bool is_frozen(std::string_view groups, const std::string& root);

}  // namespace titan
