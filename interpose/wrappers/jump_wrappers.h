#pragma once

namespace titan::interpose {

// Called in the constructor: finds the real functions and learns how to read a jmp_buf.
void find_jump_functions();

}  // namespace titan::interpose
