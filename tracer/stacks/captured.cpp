#include "captured.h"

#include <ucontext.h>

#include "base/own_memory.h"

namespace titan::tracer {

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
    thread.stack_begin = thread.registers[kStackPointer];
    thread.stack_bytes = read_memory(thread.stack_begin, thread.stack, sizeof(thread.stack));
}

}  // namespace titan::tracer
