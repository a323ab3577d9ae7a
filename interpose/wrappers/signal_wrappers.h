// sigaction and its relatives, as this library has them.
#pragma once

namespace titan::interpose {

// Those behind ours, found before they are needed. From the constructor.
void find_signal_functions();

}  // namespace titan::interpose
