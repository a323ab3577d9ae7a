// Who failed because a peer was gone.
#pragma once

#include "run.h"

namespace titan::analyzer {

// True if the program's last error says that the other end of a connection was gone: that one ended first.
bool failed_for_a_peer(const Process& process);

}  // namespace titan::analyzer
