// sigaction and its relatives, as this library has them.
#pragma once

namespace titan::interpose {

// Finds the next definitions before they are needed. Called in the constructor.
void find_signal_functions();

}  // namespace titan::interpose
