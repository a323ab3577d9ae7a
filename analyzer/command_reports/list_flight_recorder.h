// The calls of PyTorch's Flight Recorder files, listed in PyTorch's own numbers and words.
#pragma once

#include <string>
#include <vector>

#include "host/listing.h"
#include "records.h"
#include "show_filter.h"

namespace titan::analyzer {

bool fits(const TorchCallRecord& record, ShowFilter& filter);
// The cells in the columns of `titan-analyze show`.
std::vector<std::string> torch_call_cells(const TorchCallRecord& record);

}  // namespace titan::analyzer
