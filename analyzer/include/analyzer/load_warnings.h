// What could not be seen, as warnings: damaged files, ranks without a record, entries that are lost.
#pragma once

#include <string>
#include <vector>

#include "analyzer/run.h"

namespace titan::analyzer {

void warn_of_damage(const std::vector<std::string>& problems, std::vector<Warning>& warnings);
void warn_of_gaps(Run& run);

}  // namespace titan::analyzer
