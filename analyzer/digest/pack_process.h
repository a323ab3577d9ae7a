// A condensed process as bytes, and back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

// digest_fields.h describes the fields of a process once, for both ways. The process need not be condensed: PyTorch's
// pairs whose beginning is lost are numbered by their full entries when all processes are there.
std::vector<std::byte> pack_process(const Process& process);
// Hostile bytes are an error. Texts are made safe to print.
Result<Process> unpack_process(std::span<const std::byte> bytes);

}  // namespace titan::analyzer
