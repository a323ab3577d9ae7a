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
    kStopped,    // stopped by SIGSTOP, a debugger or the freezer: it cannot answer
    kZombie,     // dead; its parent has not looked yet
    kGone,       // dead
    kElsewhere,  // in another container, whose pids mean nothing here, but its heart beats
    kUnknown,    // on another machine, or before a reboot
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

// Reasons why a living process does not run. kSilent: nobody looked while it did not; it may have been stopped, or have
// found no processor.
enum class Halt : uint8_t { kNone, kStopped, kTraced, kFrozen, kSilent };

// A text for people.
std::string halt_text(Halt halt);
// The word used in files: "stopped", "traced", "frozen", "silent". Any other word, or none, is kNone.
std::string_view halt_name(Halt halt);
Halt halt_named(std::string_view name);
// Judges by the state of the main thread and the kernel function in which it waits.
Halt halt_of(char state, std::string_view wait_channel);
Halt halt_of_process(pid_t pid);  // pid in our namespace
// Judges by the text of /proc/PID/cgroup and the control groups below `root`: since Linux 6.1 a frozen process shows
// the state that it had before.
bool is_frozen(std::string_view groups, const std::string& root);

}  // namespace titan
