// libc's functions, as this library has them (exec.def, jumps.def, signals.def): each finds the next definitions before
// they are needed.
#pragma once

namespace titan::interpose {

void find_exec_functions();    // called when a session starts
void find_jump_functions();    // called in the constructor; learns how to read a jmp_buf
void find_signal_functions();  // called in the constructor

}  // namespace titan::interpose
