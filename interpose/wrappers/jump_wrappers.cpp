// longjmp and its relatives: tells the tracer of calls that a jump leaves before the real function runs.
//
// The target's stack pointer is in the jmp_buf, scrambled by libc with a secret of the process: our own setjmp, of
// which we know the stack pointer, tells the secret. Where libc scrambles in another way, that is noticed, and jumps
// are not looked at.
//
// signal-safe: the real functions are found by the constructor.
#include "libc_wrappers.h"

#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <atomic>
#include <bit>

#include "libc_function.h"
#include "tracer/record.h"

namespace titan::interpose {

namespace {

#if defined(__x86_64__)
constexpr size_t kStackPointerWord = 6;  // JB_RSP of glibc's jmpbuf-offsets.h
constexpr int kRotation = 17;            // 2 * LP_SIZE + 1 of its PTR_MANGLE
#else
constexpr size_t kStackPointerWord = 13;  // JB_SP
constexpr int kRotation = 0;
#endif

constinit std::atomic<uint64_t> secret{0};
constinit std::atomic<bool> is_readable{false};

enum class JumpApi {
#define JUMP(name) k_##name,
#include "jumps.def"
#undef JUMP
    kCount
};
constinit std::atomic<void*> real_functions[static_cast<size_t>(JumpApi::kCount)]{};

uint64_t scrambled_stack_pointer(const void* target) {
    uint64_t word = 0;
    memcpy(&word, static_cast<const char*>(target) + kStackPointerWord * sizeof(word), sizeof(word));
    return word;
}

uint64_t unscrambled(uint64_t word) { return std::rotr(word, kRotation) ^ secret.load(std::memory_order_relaxed); }

// setjmp keeps the stack pointer that its caller has once it has returned.
struct Sample {
    uint64_t stack_pointer;
    uint64_t scrambled;
};
[[gnu::noinline]] Sample take_sample() {
    jmp_buf here;
    volatile uint64_t stack_pointer = 0;
    if (_setjmp(here) == 0) {
        uint64_t now = 0;
#if defined(__x86_64__)
        asm volatile("movq %%rsp, %0" : "=r"(now));
#elif defined(__aarch64__)
        asm volatile("mov %0, sp" : "=r"(now));
#endif
        stack_pointer = now;
    }
    return {stack_pointer, scrambled_stack_pointer(&here)};
}
[[gnu::noinline]] Sample take_sample_deeper() {
    char room[256];
    asm volatile("" : : "r"(room) : "memory");
    const Sample sample = take_sample();
    asm volatile("" : : "r"(room) : "memory");
    return sample;
}

void* real_function(JumpApi api, const char* name) {
    return libc_function(real_functions[static_cast<size_t>(api)], name);
}

[[noreturn]] void jump(JumpApi api, const char* name, void* target, int value) {
    if (is_readable.load(std::memory_order_relaxed)) {
        tracer::note_jump(unscrambled(scrambled_stack_pointer(target)));
    }
    reinterpret_cast<void (*)(void*, int)>(real_function(api, name))(target, value);
    __builtin_unreachable();
}

}  // namespace

void find_jump_functions() {
#define JUMP(name) real_function(JumpApi::k_##name, #name);
#include "jumps.def"
#undef JUMP
    const Sample one = take_sample();
    const Sample other = take_sample_deeper();
    secret.store(std::rotr(one.scrambled, kRotation) ^ one.stack_pointer, std::memory_order_relaxed);
    is_readable.store(one.stack_pointer != other.stack_pointer && unscrambled(other.scrambled) == other.stack_pointer,
                      std::memory_order_relaxed);
}

}  // namespace titan::interpose

#define JUMP(name)                                                                                                     \
    extern "C" __attribute__((visibility("default"), noreturn)) void titan_##name(void* target, int value) asm(#name); \
    void titan_##name(void* target, int value) {                                                                       \
        titan::interpose::jump(titan::interpose::JumpApi::k_##name, #name, target, value);                             \
    }
#include "jumps.def"
#undef JUMP
