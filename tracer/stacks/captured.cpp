#include "captured.h"

#include <ucontext.h>

#include <iterator>

#include "base/own_memory.h"

namespace titan::tracer {
namespace {

void copy_stack(CapturedThread& thread) {
    thread.stack_begin = thread.registers[kStackPointer];
    thread.stack_bytes = read_memory(thread.stack_begin, thread.stack, sizeof(thread.stack));
}

}  // namespace

void capture(CapturedThread& thread, const void* signal_context) {
    const mcontext_t& machine = static_cast<const ucontext_t*>(signal_context)->uc_mcontext;
#if defined(__x86_64__)
    constexpr int kOrder[kRegisters] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (size_t i = 0; i < kRegisters; ++i) {
        thread.registers[i] = static_cast<uint64_t>(machine.gregs[kOrder[i]]);
    }
#elif defined(__aarch64__)
    for (size_t i = 0; i < kStackPointer; ++i) {
        thread.registers[i] = machine.regs[i];
    }
    thread.registers[kStackPointer] = machine.sp;
    thread.registers[kInstruction] = machine.pc;
#endif
    thread.known_registers = ~uint64_t{0};
    copy_stack(thread);
}

void capture_waiting(CapturedThread& thread, const ProcThread& proc) {
#if defined(__x86_64__)
    constexpr size_t kArguments[] = {5, 4, 1, 10, 8, 9};  // rdi, rsi, rdx, r10, r8, r9
#elif defined(__aarch64__)
    constexpr size_t kArguments[] = {0, 1, 2, 3, 4, 5};
#endif
    thread.known_registers = 0;
    const auto set = [&thread](size_t number, uint64_t value) {
        thread.registers[number] = value;
        thread.known_registers |= uint64_t{1} << number;
    };
    set(kInstruction, proc.instruction);
    set(kStackPointer, proc.stack_pointer);
    for (size_t i = 0; proc.system_call >= 0 && i < std::size(kArguments); ++i) {
        set(kArguments[i], proc.arguments[i]);
    }
    copy_stack(thread);
}

}  // namespace titan::tracer
