// execve and its relatives, as this library has them.
#pragma once

namespace titan::interpose {

// Those behind ours, found before they are needed. When a session starts.
void find_exec_functions();

}  // namespace titan::interpose
