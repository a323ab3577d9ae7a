// The functions that find causes, one for each FINDER row of model/findings.def, in a file of its name.
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"

namespace titan::analyzer {

// Tells what it finds that nothing before explains, and notes what that explains.
using Finder = void(const Evidence& evidence, ToldSoFar& told);

#define FINDER(name) Finder name;
#include "findings.def"

}  // namespace titan::analyzer
