// The calls of PyTorch's Flight Recorder file, listed.
#pragma once

#include <functional>
#include <string>

#include "host/listing.h"
#include "run.h"
#include "show.h"
#include "show_filter.h"

namespace titan::analyzer {

// `titan-analyze show` of one such file.
void list_flight_recorder(const Process& process, const ShowOptions& options, ShowFilter& filter, Listing& listing,
                          const std::function<void(const std::string&)>& write);

}  // namespace titan::analyzer
