// The program's actions of the signals that are ours: a table beside the kernel's, which has our handler for them. The
// other half of tracer/signal_actions.h. signal-safe, any-thread.
#pragma once

#include <signal.h>

#include <cstdint>

#include "tracer/signal_actions.h"

namespace titan::tracer {

using SignalHandler = void (*)(int number, siginfo_t* info, void* context);

// What the kernel has for a signal that the program ignores. Unlike a handler, an ignored signal interrupts no system
// call, and stays ignored in programs that this one executes.
enum class IfIgnored : uint8_t {
    kIgnored,
    kSaid,  // ignored, and a warning says that it asks for no dump
    kOurs,  // our handler all the same
};

// Adopts what the program has installed, and installs `handler`, the same for all signals.
void own_signal(int number, SignalHandler handler, IfIgnored if_ignored);

void read_action(int number, struct sigaction& program);
// As the kernel does when it calls a handler with SA_RESETHAND: the action is the default, its flags and mask stay.
void reset_action(int number, const struct sigaction& program);

// Ignores the flags: the kernel looks at the address alone.
inline bool has_handler(const struct sigaction& action) {
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}
inline bool is_ignored(const struct sigaction& action) { return action.sa_handler == SIG_IGN; }

// A vfork child shares our memory but not our signals.
bool in_vfork_child();

const char* name_or_signal(int number);  // "SIGSEGV"; "signal" for those without a name

}  // namespace titan::tracer
