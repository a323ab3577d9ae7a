// execve and its relatives, as this library has them.
#pragma once

namespace titan::interpose {

// Finds the next definitions before they are needed. Called when a session starts.
void find_exec_functions();

}  // namespace titan::interpose
