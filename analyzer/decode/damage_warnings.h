// Files that could not be read, as warnings.
#pragma once

#include <string>
#include <vector>

#include "run.h"

namespace titan::analyzer {

void warn_of_damage(const std::vector<std::string>& problems, std::vector<Warning>& warnings);

}  // namespace titan::analyzer
