// Dumps of torchcomms' recorder hook, which are PyTorch's in all but their numbers.
#pragma once

#include <optional>

#include "formats/fr/fr_dump.h"
#include "host/result.h"

namespace titan::analyzer {

// Dumps of torchcomms get the numbers that PyTorch would give: by group, from 1. An error where nothing tells them.
std::optional<Error> number_by_group(format::fr::Dump& dump);

}  // namespace titan::analyzer
