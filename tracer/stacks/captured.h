// A captured thread: its registers and the part of its stack above its stack pointer, copied while it was held or
// waited.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "base/proc_thread.h"

namespace titan::tracer {

inline constexpr size_t kStackCopyBytes = 256 << 10;

#if defined(__x86_64__)
inline constexpr size_t kRegisters = 17;  // DWARF's numbers: 6 rbp, 7 rsp, 16 rip
inline constexpr size_t kStackPointer = 7;
inline constexpr size_t kFramePointer = 6;
inline constexpr size_t kInstruction = 16;
#elif defined(__aarch64__)
inline constexpr size_t kRegisters = 33;  // x0 to x30, sp, pc
inline constexpr size_t kStackPointer = 31;
inline constexpr size_t kFramePointer = 29;
inline constexpr size_t kInstruction = 32;
#endif

struct CapturedThread {
    uint64_t registers[kRegisters];
    uint64_t known_registers;  // bit n: register n
    uint64_t stack_begin;
    size_t stack_bytes;
    char stack[kStackCopyBytes];
};

// Fills in the registers of what a signal interrupted, and copies its stack. signal-safe.
void capture(CapturedThread& thread, const void* signal_context);
// The same of a thread that waits in the kernel, as far as that tells.
void capture_waiting(CapturedThread& thread, const ProcThread& proc);

}  // namespace titan::tracer
