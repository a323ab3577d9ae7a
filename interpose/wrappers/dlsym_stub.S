/* The exported dlsym and dlvsym. They ask interpose_dlsym(handle, name, version, caller), which returns two words:
 * where to go on, or null and the result. Going on is a jump with all argument registers and the return address as the
 * caller left them, because the real functions look at who called. */

#if defined(__x86_64__)

.macro STUB name
    .text
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rcx
    call interpose_\name
    movq %rdx, %rcx
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    jz 1f
    jmp *%rax
1:
    movq %rcx, %rax
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

#elif defined(__aarch64__)

.macro STUB name
    .text
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint 34 /* bti c */
    stp x29, x30, [sp, -48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov x29, sp
    stp x0, x1, [sp, 16]
    str x2, [sp, 32]
    mov x3, x30
    bl interpose_\name
    mov x16, x0
    mov x9, x1
    ldp x0, x1, [sp, 16]
    ldr x2, [sp, 32]
    ldp x29, x30, [sp], 48
    .cfi_def_cfa_offset 0
    .cfi_restore 29
    .cfi_restore 30
    cbz x16, 1f
    br x16
1:
    mov x0, x9
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

#else
#error "no dlsym stub for this architecture: leave dlsym_hook.cpp and this file out of the build"
#endif

STUB dlsym
STUB dlvsym

    .section .note.GNU-stack, "", %progbits
