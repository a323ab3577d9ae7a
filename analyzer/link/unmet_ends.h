// Calls that were taken for done and cannot be: some member has not made its side.
#pragma once

#include "run.h"

namespace titan::analyzer {

// Where nobody watched the GPU, a synchronisation that returned tells that earlier calls are done. It was another
// device's, or of another context, where the thread that made such a call still waits for the GPU and a member has not
// come: then nothing is known of the call. Members must be in order.
void forget_unmet_ends(Run& run);

}  // namespace titan::analyzer
