// Loads a run from paths: the first step of every command.
#pragma once

#include "host/result.h"
#include "load_options.h"
#include "run.h"

namespace titan::analyzer {

Result<Run> load_run(const LoadOptions& options);

}  // namespace titan::analyzer
