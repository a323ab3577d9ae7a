#pragma once

namespace titan::interpose {

// By the constructor: the real functions, and how to read a jmp_buf.
void find_jump_functions();

}  // namespace titan::interpose
